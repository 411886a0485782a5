"""All-gather instead of all-reduce: everybody has everybody's contribution, and adds them up for itself.

For what is coded and cannot be summed without being decoded: each contribution travels as it is, once to each of the
others, and is decoded where it is added.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from weft.collectives.speaking import Key, SpeakingPeer, spoken_kinds
from weft.collectives.wrapping import Wrapped
from weft.core.actions import Action, Combine, Reduce, Send, copy, rescale
from weft.core.events import Received
from weft.core.names import Buffer, Carries, NodeId, Role, Slot
from weft.core.peer import Actions, Peer
from weft.core.world import World

NAME = "gather"


@dataclass(frozen=True)
class Gathered(Wrapped):
    """`inner`, with every Reduce of these kinds done by gathering: L + (P-1) m G for a message of m bytes.

    Contributions are added in the order of their workers, so that all get the same bits.
    """

    gathered: tuple[str, ...]

    def slots(self, role: Role, world: World) -> tuple[Slot, ...]:
        if role is not Role.WORKER:
            return self.inner.slots(role, world)
        mine = [f"{NAME}.sum.0", f"{NAME}.sum.1", *(came(worker, i) for worker in world.workers for i in (0, 1))]
        return (*self.inner.slots(role, world), *map(Slot, mine))

    def kinds(self) -> Mapping[str, Carries]:
        inner = self.inner.kinds()
        return {**inner, **spoken_kinds(NAME, {kind: inner[kind] for kind in self.gathered})}

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        return GatheredPeer(self, self.inner.peer(me, world, rng), me, world, rng)


def came(worker: NodeId, turn: int) -> str:
    """Where a worker's contribution waits; it may be one ahead."""
    return f"{NAME}.from.{worker}.{turn}"


class Gathering:
    """One Reduce under way, or about to begin: who has sent its contribution, and of what weight."""

    def __init__(self) -> None:
        self._reduce: Reduce | None = None
        self.weights: dict[NodeId, float] = {}


class GatheredPeer(SpeakingPeer):
    """Wraps a peer; sends contributions to all and adds up those of all."""

    def __init__(self, recipe: Gathered, inner: Peer, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(NAME, inner, me, world, rng)
        self._gathered = recipe.gathered
        self.gatherings: dict[Key, Gathering] = {}
        self.num_came: dict[tuple[NodeId, int], int] = {}
        """Of each worker and bucket: the contributions that came in this view."""
        self.num_done: dict[int, int] = {}
        """Of each bucket: the reductions that ended in this view."""

    def speaks(self, reduce: Reduce) -> bool:
        return reduce.kind in self._gathered and super().speaks(reduce)

    def waiting_for(self) -> str:
        for (kind, clock, bucket), gathering in self.gatherings.items():
            if gathering._reduce is not None:
                late = [worker for worker in gathering._reduce.group if worker not in gathering.weights]
                names = ", ".join(self.world.name(worker) for worker in late)
                return f"{names} in the gathering of '{kind}' (step {clock}, bucket {bucket})"
        return super().waiting_for()

    def forget(self) -> None:
        self.gatherings.clear()
        self.num_came.clear()
        self.num_done.clear()

    def begin(self, reduce: Reduce) -> Actions:
        kind, clock, bucket = key = reduce.kind, reduce.clock, reduce.buffer.bucket
        gathering = self.gatherings.setdefault(key, Gathering())
        gathering._reduce = reduce
        gathering.weights[self.me] = reduce.weight
        body, spoken = reduce.buffer if reduce.weight else None, self._prefix + kind
        others = [worker for worker in reduce.group if worker != self.me]
        sends: Actions = [Send(worker, spoken, clock, bucket, body, reduce.weight) for worker in others]
        return [*sends, *self._end_if_complete(key, gathering)]

    def take(self, event: Received, key: Key) -> Actions:
        if event.body is not None and event.body.part is not None:
            raise self.unexpected(event)
        gathering = self.gatherings.setdefault(key, Gathering())
        gathering.weights[event.source] = event.weight
        place = event.source, event.bucket
        turn = self.num_came[place] = self.num_came.get(place, 0) + 1
        kept: Actions = []
        if event.body is not None:
            kept = [copy(Buffer(came(event.source, turn & 1), event.bucket), event.body)]
        return [*kept, *self._end_if_complete(key, gathering)]

    def _end_if_complete(self, key: Key, gathering: Gathering) -> Actions:
        reduce = gathering._reduce
        if reduce is None or len(gathering.weights) < len(reduce.group):
            return []
        kind, clock, bucket = key
        del self.gatherings[key]
        turn = self.num_done[bucket] = self.num_done.get(bucket, 0) + 1
        into, actions = self.recovery.sum(bucket), list[Action]()
        for worker in sorted(gathering.weights):
            weight = gathering.weights[worker]
            if weight:
                body = reduce.buffer if worker == self.me else Buffer(came(worker, turn & 1), bucket)
                actions.append(Combine(into, 1.0 if actions else 0.0, body, weight))
        total = sum(gathering.weights[worker] for worker in sorted(gathering.weights))
        self.recovery.end(bucket, kind, clock, total)
        return [*(actions or [rescale(into, 0.0)]), *self.tell(reduce, total)]
