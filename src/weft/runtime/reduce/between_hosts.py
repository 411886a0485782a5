"""All-reduce between hosts: the leader (first worker) of each host exchanges sums with the others, in place, in hops.

A bucket is cut in pieces that are exchanged independently: one is summed while the next ones are under way. Each part
is sent with the number of its reduction and the weights of all hosts that its leader knows by then. In the end every
leader knows all weights, and adds them in the order of hosts: so all have the same total, bit for bit.

What is received goes straight to where it belongs in the sum if it only has to be put there, and else to memory of its
own until its turn.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import UnexpectedMessage
from weft.core.names import Bucket, NodeId, Part
from weft.runtime.reduce.exchange import (
    UNKNOWN,
    About,
    CamePart,
    Exchange,
    Hop,
    HostSum,
    Plan,
    about_bytes,
)

Array = NDArray[Any]
Key = tuple[int, int]
"""(lane, bucket): there is at most one reduction of it at a time."""

Planner = Callable[[int, int, int], Sequence[Plan]]
"""Takes a host's number, the number of hosts and the bytes of a bucket; returns the plans of the bucket's pieces."""

Name = tuple[NodeId, int, Part | None]
"""Who sends a part, in which reduction, and which part. In a ring a leader sends two of the same name: its sum so far,
and later the complete one, which was made of the first; so there is never more than one that was not taken."""


class Post(Protocol):
    """What a leader needs of its mailbox."""

    def send_sum(
        self, to: NodeId, key: Key, number: int, part: Part | None, about: bytes, values: Array, *, is_lent: bool
    ) -> None:
        """Send a part of a sum to another leader; what is lent does not change before it has left, or `take_back`."""

    def take_back(self, key: Key) -> None:
        """Copy what was lent of a bucket's last sum and has not left yet."""


class PlannedBucket:
    """How a bucket is exchanged, in whatever lane."""

    def __init__(self, plans: Sequence[Plan], leaders: Sequence[NodeId]) -> None:
        self.plans = plans
        self.awaited: dict[tuple[NodeId, Part | None], int] = {}
        """The parts that come in each reduction, by their senders, and to which piece they belong."""
        for piece, plan in enumerate(plans):
            self.awaited.update({(leaders[hop.other], hop.part): piece for hop in plan.hops if not hop.is_sent})


class OpenSum:
    """A bucket's sum under way: the exchanges of its pieces."""

    def __init__(self, exchanges: list[Exchange]) -> None:
        self.exchanges = exchanges
        self.num_open = len(exchanges)


class BetweenHosts:
    """The leader's side of all exchanges with the other leaders. Never blocks."""

    def __init__(
        self, leaders: Sequence[NodeId], me: int, buckets: Sequence[Bucket], planner: Planner, post: Post
    ) -> None:
        """`leaders` are the leaders' ranks in the order of hosts; `me` is this host's index in it."""
        self._leaders = leaders
        self._me = me
        self._post = post
        self._buckets = buckets
        self._planned = [PlannedBucket(planner(me, len(leaders), each.num_bytes), leaders) for each in buckets]
        self._open: dict[Key, OpenSum] = {}
        self._numbers: dict[Key, int] = {}
        """The number of the last reduction that was begun, by lane and bucket."""
        self._early: dict[Key, dict[Name, CamePart]] = {}
        """Parts that came before their turn: of at most two reductions of a bucket."""
        self._rooms: dict[tuple[Key, NodeId, Part | None, int], Array] = {}
        """Memory for such parts, made when it is first needed; two for each, used by turns."""
        self._placed: dict[tuple[Key, Name], CamePart] = {}
        """Parts that are being received, in memory that was found for them."""

    def begin(self, key: Key, number: int, about: About, op: str, mine: HostSum) -> None:
        """Begin an exchange: `mine.total` holds the reduced values of all hosts in the end."""
        weights = [UNKNOWN] * len(self._leaders)
        weights[self._me] = mine.weight
        plans = self._planned[key[1]].plans
        under_way = OpenSum([Exchange(number, about, op, mine, plan, weights) for plan in plans])
        self._open[key], self._numbers[key] = under_way, number
        for exchange in under_way.exchanges:
            self._go_on(key, under_way, exchange)

    def ended(self, key: Key) -> float | None:
        """The total weight of a sum when all of its pieces are there; then it is forgotten. Else None."""
        under_way = self._open[key]
        if under_way.num_open:
            return None
        del self._open[key]
        return float(sum(under_way.exchanges[0].weights))

    @property
    def is_idle(self) -> bool:
        """Whether no exchange is under way."""
        return not self._open

    def _go_on(self, key: Key, under_way: OpenSum, exchange: Exchange) -> None:
        """Do the hops of a piece until one needs a part that has not come."""
        early = self._early.setdefault(key, {})
        while (hop := exchange.next) is not None:
            other = self._leaders[hop.other]
            if hop.is_sent:
                about, values = exchange.part(hop.part)
                self._post.send_sum(other, key, exchange.number, hop.part, about, values, is_lent=hop.is_lent)
                exchange.at += 1
                continue
            came = early.pop((other, exchange.number, hop.part), None)
            if came is None:
                return
            exchange.take(hop, came)
        under_way.num_open -= 1

    def room(self, key: Key, name: Name) -> Array | None:
        """Where a part that is about to be received goes; None: anywhere, it is used or refused at once."""
        if not self._is_due(key, name):
            return None
        found = self._next(key, name)
        if found is None:
            placed = CamePart(*name, b"", self._room_of_early(key, name))
        elif found[2].replaces:
            placed = CamePart(*name, b"", found[1].place(name[2]), is_in_place=True)
        else:
            return None
        self._placed[key, name] = placed
        return placed.values

    def _room_of_early(self, key: Key, name: Name) -> Array:
        (source, number, part), bucket = name, self._buckets[key[1]]
        place = key, source, part, number & 1
        if place not in self._rooms:
            start, stop = (0, bucket.num_elements) if part is None else part.bounds(bucket.num_elements)
            self._rooms[place] = np.empty(stop - start, f"f{bucket.itemsize}")
        return self._rooms[place]

    def _next(self, key: Key, name: Name) -> tuple[OpenSum, Exchange, Hop] | None:
        """The exchange under way whose next hop takes this part."""
        under_way = self._open.get(key)
        if under_way is None:
            return None
        source, _, part = name
        exchange = under_way.exchanges[self._planned[key[1]].awaited[source, part]]
        hop = exchange.next
        if hop is None or hop.is_sent or (self._leaders[hop.other], exchange.number, hop.part) != name:
            return None
        return under_way, exchange, hop

    def hear(self, key: Key, came: CamePart) -> None:
        """Take a received part: used if it is the next hop's, else kept for later."""
        name = came.name
        placed = self._placed.pop((key, name), None)
        if not self._is_due(key, name) or len(came.about) != about_bytes(len(self._leaders)):
            raise UnexpectedMessage(
                f"worker {came.source} sent a part of a sum of bucket {key[1]} that worker {self._leaders[self._me]} "
                f"does not await: of reduction {came.number}, while {self._numbers.get(key, 0)} is the last one here."
            )
        if placed is not None:
            came = placed._replace(about=came.about)
        found = self._next(key, name)
        if found is not None:
            under_way, exchange, hop = found
            exchange.take(hop, came)
            self._go_on(key, under_way, exchange)
            return
        if placed is None:
            room = self._room_of_early(key, name)
            np.copyto(room, came.values)
            came = came._replace(values=room)
        self._early.setdefault(key, {})[name] = came

    def _is_due(self, key: Key, name: Name) -> bool:
        """Whether a correct leader may send this part now."""
        source, number, part = name
        ahead = number - self._numbers.get(key, 0)
        is_due = ahead == 1 or (ahead == 0 and key in self._open)  # no host ends a reduction without this one's part
        is_awaited = (source, part) in self._planned[key[1]].awaited
        return is_due and is_awaited and name not in self._early.get(key, ())

    def waits_for(self) -> list[NodeId]:
        """The leaders whose parts the oldest exchange under way waits for."""
        for under_way in self._open.values():
            hops = [exchange.next for exchange in under_way.exchanges]
            return sorted({self._leaders[hop.other] for hop in hops if hop is not None})
        return []
