"""All-reduce between hosts: the leader (first worker) of each host exchanges sums with the others, in place, in hops.

Each part is sent with the number of its reduction and the weights of all hosts that its leader knows by then. In the
end every leader knows all weights, and adds them in the order of hosts: so all have the same total, bit for bit.
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
"""(lane, bucket): there is at most one reduction of it at a time."""

UNKNOWN = -1.0
"""Stands for the weight of a host that is not known yet."""

_ABOUT = Struct("<qIq")


class About(NamedTuple):
    """Facts about a reduction that must be equal on all hosts."""

    clock: int
    name: int
    """Checksum of kind, op and slot."""
    version: int
    """The leader's COMMITTED word: the number of the last reduction applied, where workers share their parameters."""


class Hop(NamedTuple):
    """One message of a leader: it sends `part` of its sum to host `other`, or receives that part, to add it to its own
    or to replace its own."""

    other: int
    part: Part | None
    is_sent: bool
    replaces: bool = False


Plan = Callable[[int, int, int], Sequence[Hop]]
"""Takes a host's number, the number of hosts and the bytes of a bucket; returns the hops of the host's leader."""

SendSum = Callable[[NodeId, Key, int, Part | None, bytes, Array], None]
"""Sends a part of a sum: target, lane and bucket, number of the reduction, part, packed `About`, values."""


class EarlyPart(NamedTuple):
    """A part of another host's sum, as it was received."""

    source: NodeId
    number: int
    part: Part | None
    about: bytes
    values: Array


class Exchange:
    """The exchange of one bucket's sum between the hosts; `at` is the index of the next hop."""

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
        """Add the received part to this host's sum, or overwrite that part of it, as `hop` says."""
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
    """The leader's side of all exchanges with the other leaders. Never blocks."""

    def __init__(
        self, leaders: Sequence[NodeId], me: int, bucket_bytes: Sequence[int], plan: Plan, send: SendSum
    ) -> None:
        """`leaders` are the leaders' ranks in the order of hosts; `me` is this host's index in it."""
        self._leaders = leaders
        self._me = me
        self._send = send
        self._hops = [plan(me, len(leaders), num_bytes) for num_bytes in bucket_bytes]
        """The hops of each bucket's exchange."""
        self._awaited = [{(leaders[hop.other], hop.part) for hop in hops if not hop.is_sent} for hops in self._hops]
        self._open: dict[Key, Exchange] = {}
        self._numbers: dict[Key, int] = {}
        """The number of the last reduction that was begun, by lane and bucket."""
        self._early: dict[Key, list[EarlyPart]] = {}

    def begin(self, key: Key, number: int, about: About, op: str, total: Array, weight: float) -> None:
        """Begin an exchange: `total` holds this host's sum now, and the sum over all hosts in the end."""
        weights = [UNKNOWN] * len(self._leaders)
        weights[self._me] = weight
        self._open[key] = Exchange(number, about, op, total, weights)
        self._numbers[key] = number

    def advance(self, key: Key) -> float | None:
        """Do hops until one needs a part that has not come. Returns the total weight when all are done, else None."""
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
        """Whether no exchange is under way."""
        return not self._open

    def _is_next(self, exchange: Exchange, hop: Hop, came: EarlyPart) -> bool:
        awaited = self._leaders[hop.other], exchange.number, hop.part
        return (came.source, came.number, came.part) == awaited

    def hear(self, key: Key, came: EarlyPart) -> None:
        """Take a received part: used in place if it is the next hop's, else copied and kept for later."""
        self._check(key, came)
        exchange = self._open.get(key)
        if exchange is not None and exchange.at < len(self._hops[key[1]]):
            hop = self._hops[key[1]][exchange.at]
            if not hop.is_sent and self._is_next(exchange, hop, came):
                exchange.take(hop, came)
                return
        self._early.setdefault(key, []).append(came._replace(values=came.values.copy()))

    def _check(self, key: Key, came: EarlyPart) -> None:
        """Refuse parts that no correct leader sends; so parts of at most two reductions of a bucket are ever kept."""
        ahead = came.number - self._numbers.get(key, 0)
        is_due = ahead == 1 or (ahead == 0 and key in self._open)  # no host ends a reduction without this one's part
        is_known = (came.source, came.part) in self._awaited[key[1]]
        is_kept = any(one[:3] == came[:3] for one in self._early.get(key, ()))
        is_whole = len(came.about) == _ABOUT.size + 8 * len(self._leaders)
        if not is_due or not is_known or not is_whole or is_kept:
            raise UnexpectedMessage(
                f"worker {came.source} sent a part of a sum of bucket {key[1]} that worker {self._leaders[self._me]} "
                f"does not await: of reduction {came.number}, while {self._numbers.get(key, 0)} is the last one here."
            )

    def waits_for(self) -> list[NodeId]:
        """The leader whose part the oldest exchange under way waits for, as a list; empty if there is none."""
        for key, exchange in self._open.items():
            return [self._leaders[hop.other] for hop in self._hops[key[1]][exchange.at : exchange.at + 1]]
        return []
