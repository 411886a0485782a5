"""Sums between hosts: the first worker of each, its leader, swaps them with the other leaders, hop by hop and in place.

What a leader sends says which reduction it is of, and the weights of all hosts whose sums it has heard of by then. In
the end everybody knows all of them, in the order of hosts: so all have the same total, bit for bit.
"""

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.core.actions import MAX
from weft.core.errors import ConfigError, IllegalAction, UnexpectedMessage
from weft.core.names import NodeId, Part

Array = NDArray[Any]
Key = tuple[int, int]
"""A lane and a bucket: they have one reduction at a time."""

UNKNOWN = -1.0
"""Stands for the weight of a host that has not been heard of."""

_ABOUT = Struct("<qIq")


class About(NamedTuple):
    """What hosts that add up their sums must have in common."""

    clock: int
    name: int
    """Stands for what is reduced and how."""
    version: int
    """The reduction whose step was made last, where a host's workers share their parameters."""


class Hop(NamedTuple):
    """Send a part of the own sum to another host, or take one from it: add it, or let it stand in for the own."""

    other: int
    part: Part | None
    is_sent: bool
    replaces: bool = False


Plan = Callable[[int, int, int], Sequence[Hop]]
"""From a host's number, how many hosts there are, and the bytes of a bucket, to what its leader does."""

SendSum = Callable[[NodeId, Key, int, Part | None, bytes, Array], None]
"""Send a part of a sum: to whom, of which lane and bucket, its reduction's number, which part, about it, values."""


class EarlyPart(NamedTuple):
    """A part of another host's sum that came before its turn."""

    source: NodeId
    number: int
    part: Part | None
    about: bytes
    values: Array


class Exchange:
    """The sum of one bucket under way between the hosts."""

    def __init__(self, number: int, about: About, op: str, total: Array, weights: list[float]) -> None:
        self.number = number
        self._about = about
        self.op = op
        self.total = total
        self.weights = weights
        self.at = 0

    def about(self) -> bytes:
        return _ABOUT.pack(*self._about) + np.array(self.weights).tobytes()

    def part(self, part: Part | None) -> Array:
        if part is None:
            return self.total
        start, stop = part.bounds(len(self.total))
        return self.total[start:stop]

    def take(self, hop: Hop, came: EarlyPart) -> None:
        """Add what came, or take it over."""
        self._check_alike(came.source, About(*_ABOUT.unpack_from(came.about)))
        heard = np.frombuffer(came.about, offset=_ABOUT.size)
        self.weights = [theirs if mine == UNKNOWN else mine for mine, theirs in zip(self.weights, heard, strict=True)]
        into = self.part(hop.part)
        if hop.replaces:
            np.copyto(into, came.values)
        elif self.op == MAX:
            np.maximum(into, came.values, out=into)
        else:
            np.add(into, came.values, out=into)
        self.at += 1

    def _check_alike(self, source: NodeId, theirs: About) -> None:
        mine = self._about
        if (theirs.clock, theirs.name) != (mine.clock, mine.name):
            raise IllegalAction(
                f"a reduction at clock {mine.clock} met another one of its bucket on worker {source}, "
                f"at clock {theirs.clock}."
            )
        if theirs.version != mine.version:
            raise ConfigError(
                f"worker {source} and this one, on different hosts, have not skipped the same steps, so their "
                "parameters would differ.\n"
                "  Skip a step on all workers or on none: a test on the reduced gradient is the same for all."
            )


class BetweenHosts:
    """What the leader of this host says to the others, and hears of them. Nobody waits here."""

    def __init__(
        self, leaders: Sequence[NodeId], me: int, bucket_bytes: Sequence[int], plan: Plan, send: SendSum
    ) -> None:
        """`me` is the number of this host, and of its leader, among all."""
        self._leaders = leaders
        self._me = me
        self._send = send
        self._hops = [plan(me, len(leaders), num_bytes) for num_bytes in bucket_bytes]
        """Of each bucket."""
        self._awaited = [{(leaders[hop.other], hop.part) for hop in hops if not hop.is_sent} for hops in self._hops]
        self._open: dict[Key, Exchange] = {}
        self._numbers: dict[Key, int] = {}
        """Of each lane and bucket, the last reduction that was begun."""
        self._early: dict[Key, list[EarlyPart]] = {}

    def begin(self, key: Key, number: int, about: About, op: str, total: Array, weight: float) -> None:
        """This host's sum is in `total`, where that of all will be."""
        weights = [UNKNOWN] * len(self._leaders)
        weights[self._me] = weight
        self._open[key] = Exchange(number, about, op, total, weights)
        self._numbers[key] = number

    def advance(self, key: Key) -> float | None:
        """Go on until something is missing; the weight of all hosts when it is done."""
        exchange, hops, early = self._open[key], self._hops[key[1]], self._early.setdefault(key, [])
        while exchange.at < len(hops):
            hop = hops[exchange.at]
            other = self._leaders[hop.other]
            if hop.is_sent:
                self._send(other, key, exchange.number, hop.part, exchange.about(), exchange.part(hop.part))
                exchange.at += 1
                continue
            index = next((i for i, one in enumerate(early) if self._is_next(exchange, hop, one)), None)
            if index is None:
                return None
            exchange.take(hop, early.pop(index))
        del self._open[key]
        return float(sum(exchange.weights))

    @property
    def is_idle(self) -> bool:
        """No sum is under way."""
        return not self._open

    def _is_next(self, exchange: Exchange, hop: Hop, came: EarlyPart) -> bool:
        awaited = self._leaders[hop.other], exchange.number, hop.part
        return (came.source, came.number, came.part) == awaited

    def hear(self, key: Key, came: EarlyPart) -> None:
        """A part came; one that is awaited is used where it lies, another one is kept."""
        self._check(key, came)
        exchange = self._open.get(key)
        if exchange is not None and exchange.at < len(self._hops[key[1]]):
            hop = self._hops[key[1]][exchange.at]
            if not hop.is_sent and self._is_next(exchange, hop, came):
                exchange.take(hop, came)
                return
        self._early.setdefault(key, []).append(came._replace(values=came.values.copy()))

    def _check(self, key: Key, came: EarlyPart) -> None:
        """Refuse what no leader of this run sends: so no more is ever kept than two reductions of a bucket need."""
        ahead = came.number - self._numbers.get(key, 0)
        is_due = ahead == 1 or (ahead == 0 and key in self._open)  # nobody ends a reduction without this host
        is_known = (came.source, came.part) in self._awaited[key[1]]
        is_kept = any(one[:3] == came[:3] for one in self._early.get(key, ()))
        is_whole = len(came.about) == _ABOUT.size + 8 * len(self._leaders)
        if not is_due or not is_known or not is_whole or is_kept:
            raise UnexpectedMessage(
                f"worker {came.source} sent a part of a sum of bucket {key[1]} that worker {self._leaders[self._me]} "
                f"does not await: of reduction {came.number}, while {self._numbers.get(key, 0)} is the last one here."
            )

    def waits_for(self) -> list[NodeId]:
        """The leader whose part is missing in the oldest sum under way."""
        for key, exchange in self._open.items():
            return [self._leaders[hop.other] for hop in self._hops[key[1]][exchange.at : exchange.at + 1]]
        return []
