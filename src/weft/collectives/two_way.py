"""Coded both ways: each worker is the server of one part, sums what the others say of it, and encodes the sum again.

Of the ways to reduce what cannot be summed without being decoded it sends the fewest bytes. With a codec that says
only signs it is a majority vote (Bernstein et al. 2018).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from weft.collectives.speaking import Key, SpeakingPeer, spoken_kinds
from weft.collectives.wrapping import Wrapped
from weft.core.actions import Action, Combine, Encode, Reduce, Send, add, copy, rescale
from weft.core.coding import Coding
from weft.core.events import Received
from weft.core.names import Buffer, Carries, NodeId, Part, Role, Slot
from weft.core.peer import Actions, Peer
from weft.core.world import World

NAME = "two_way"
THERE, BACK = "there", "back"
RESIDUAL = f"{NAME}.residual"
"""What this worker has not said of its own contributions."""
REST = f"{NAME}.rest"
"""What it has not said of the means of its part."""
MEAN_SLOT = f"{NAME}.mean"


@dataclass(frozen=True)
class TwoWay(Wrapped):
    """`inner`, with every Reduce of these kinds coded on its way to the servers of its parts and on its way back.

    2 L + 2 m G (P-1)/P for m coded bytes. With feedback, what is left out on either way is kept and said later.
    When members change, the parts are cut anew: what a server has kept of its old part it says as a worker.
    """

    coded: tuple[str, ...]
    codec: Coding

    def slots(self, role: Role, world: World) -> tuple[Slot, ...]:
        if role is not Role.WORKER:
            return self.inner.slots(role, world)
        mine = [f"{NAME}.sum.0", f"{NAME}.sum.1", f"{NAME}.{THERE}", f"{NAME}.{BACK}", MEAN_SLOT, RESIDUAL, REST]
        mine += [came(worker) for worker in world.workers]
        return (*self.inner.slots(role, world), *map(Slot, mine))

    def kinds(self) -> Mapping[str, Carries]:
        inner = self.inner.kinds()
        legs = {f"{kind}.{leg}": inner[kind] for kind in self.coded for leg in (THERE, BACK)}
        return {**inner, **spoken_kinds(NAME, legs)}

    def codecs(self) -> Mapping[str, Coding]:
        legs = [f"{NAME}.{kind}.{leg}" for kind in self.coded for leg in (THERE, BACK)]
        return {**self.inner.codecs(), **dict.fromkeys(legs, self.codec)}

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        return TwoWayPeer(self, self.inner.peer(me, world, rng), me, world, rng)


def came(worker: NodeId) -> str:
    """Where what a worker says of the own part waits. It says no more before it has heard the mean."""
    return f"{NAME}.from.{worker}"


class TwoWayReduce:
    """One Reduce under way, or about to begin."""

    def __init__(self) -> None:
        self._reduce: Reduce | None = None
        self.weights: dict[NodeId, float] = {}
        """Of what came of the own part."""
        self.total: float | None = None
        """The weight of the mean of the own part, when it is there."""
        self.back: set[NodeId] = set()
        """The servers whose parts are there."""


class TwoWayPeer(SpeakingPeer):
    """Wraps a peer; a worker and the server of a part at the same time."""

    changes_alone = True

    def __init__(self, recipe: TwoWay, inner: Peer, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(NAME, inner, me, world, rng)
        self._coded = recipe.coded
        self._feedback = recipe.codec.wants_feedback
        self.runs: dict[Key, TwoWayReduce] = {}
        self.encoded: dict[int, int] = {}
        """Of each bucket whose contribution is encoded and whose reduction has not ended: in how many parts."""
        self.answered: dict[int, Part] = {}
        """Of each bucket whose reduction has not ended: the part whose mean is encoded."""
        self.groups: dict[int, tuple[NodeId, ...]] = {}
        """Of each bucket: those who reduced it last."""

    def speaks(self, reduce: Reduce) -> bool:
        return reduce.kind in self._coded and super().speaks(reduce)

    def waiting_for(self) -> str:
        for (kind, clock, bucket), run in self.runs.items():
            if run._reduce is not None:
                came = run.weights if run.total is None else run.back
                late = [worker for worker in run._reduce.group if worker not in came]
                names = ", ".join(self.world.name(worker) for worker in late)
                return f"{names} in the two-way reduction of '{kind}' (step {clock}, bucket {bucket})"
        return super().waiting_for()

    def forget(self) -> None:
        self.runs.clear()

    def begin(self, reduce: Reduce) -> Actions:
        bucket = reduce.buffer.bucket
        key = reduce.kind, reduce.clock, bucket
        run = self.runs.setdefault(key, TwoWayReduce())
        run._reduce = reduce
        actions = self._take_back(reduce) if self._feedback else []
        self.groups[bucket] = reduce.group
        actions += self._say(reduce)
        return [*actions, *self._heard(key, run, self.me, reduce.weight), *self._end_if_complete(key, run)]

    def _take_back(self, reduce: Reduce) -> Actions:
        """What was said for a reduction that never happened goes back to where it came from. When the parts change,
        what was kept of the old one goes to the own residual, where it weighs 1 in so many."""
        bucket, actions = reduce.buffer.bucket, list[Action]()
        residual, rest = Buffer(RESIDUAL, bucket), Buffer(REST, bucket)
        if bucket in self.answered:
            part = self.answered.pop(bucket)
            mine, back = Buffer(REST, bucket, part), Buffer(f"{NAME}.{BACK}", bucket, part)
            actions += [add(mine, back), add(mine, Buffer(MEAN_SLOT, bucket, part), -1.0)]
        if bucket in self.encoded:
            num_parts = self.encoded.pop(bucket)
            for part in (Part(i, num_parts) for i in range(num_parts)):
                actions.append(add(Buffer(RESIDUAL, bucket, part), Buffer(f"{NAME}.{THERE}", bucket, part)))
            actions.append(add(residual, reduce.buffer, -1.0))
        if self.groups.get(bucket, reduce.group) != reduce.group:
            actions += [add(residual, rest, float(len(reduce.group))), rescale(rest, 0.0)]
        return actions

    def tell(self, reduce: Reduce, total: float) -> Actions:
        """It has ended, here or for others who have handed it on: what was encoded for it has counted."""
        self.encoded.pop(reduce.buffer.bucket, None)
        self.answered.pop(reduce.buffer.bucket, None)
        return super().tell(reduce, total)

    def _say(self, reduce: Reduce) -> Actions:
        """Encode the contribution part by part, each for its server."""
        bucket, num_parts = reduce.buffer.bucket, len(reduce.group)
        kind = f"{self._prefix}{reduce.kind}.{THERE}"
        actions: Actions = []
        if reduce.weight:
            self.encoded[bucket] = num_parts
        for rank, worker in enumerate(reduce.group):
            part, body = Part(rank, num_parts), None
            if reduce.weight:
                body, source = Buffer(f"{NAME}.{THERE}", bucket, part), Buffer(*reduce.buffer[:2], part)
                residual = Buffer(RESIDUAL, bucket, part) if self._feedback else None
                actions.append(Encode(kind, reduce.clock, body, source, residual))
            if worker != self.me:
                actions.append(Send(worker, kind, reduce.clock, bucket, body, reduce.weight))
        return actions

    def take(self, event: Received, key: Key) -> Actions:
        kind, _, leg = key[0].rpartition(".")
        key = kind, key[1], key[2]
        run = self.runs.setdefault(key, TwoWayReduce())
        if leg == BACK:
            run.back.add(event.source)
            kept: Actions = []
            if event.body is not None:
                into = self.recovery.sum(event.bucket, event.body.part)
                kept = [Combine(into, 0.0, event.body, event.weight)]
            return [*kept, *self._end_if_complete(key, run)]
        said: Actions = []
        if event.body is not None:
            said = [copy(Buffer(came(event.source), event.bucket, event.body.part), event.body)]
        said += self._heard(key, run, event.source, event.weight)
        return [*said, *self._end_if_complete(key, run)]

    def _heard(self, key: Key, run: TwoWayReduce, source: NodeId, weight: float) -> Actions:
        """Note who has spoken of the own part; when all have, answer with the mean."""
        run.weights[source] = weight
        reduce = run._reduce
        if reduce is None or len(run.weights) < len(reduce.group):
            return []
        kind, clock, bucket = key
        part = Part(reduce.group.index(self.me), len(reduce.group))
        mean, back = Buffer(MEAN_SLOT, bucket, part), Buffer(f"{NAME}.{BACK}", bucket, part)
        total = run.total = sum(run.weights[worker] for worker in sorted(run.weights))
        actions: Actions = []
        for worker in sorted(run.weights):
            if run.weights[worker]:
                slot = f"{NAME}.{THERE}" if worker == self.me else came(worker)
                share = run.weights[worker] / total
                actions.append(Combine(mean, 1.0 if actions else 0.0, Buffer(slot, bucket, part), share))
        spoken = f"{self._prefix}{kind}.{BACK}"
        if total:
            residual = Buffer(REST, bucket, part) if self._feedback else None
            actions += [Encode(spoken, clock, back, mean, residual)]
            actions.append(Combine(self.recovery.sum(bucket, part), 0.0, back, total))
            self.answered[bucket] = part
        run.back.add(self.me)
        body = back if total else None
        actions += [Send(worker, spoken, clock, bucket, body, total) for worker in reduce.group if worker != self.me]
        return actions

    def _end_if_complete(self, key: Key, run: TwoWayReduce) -> Actions:
        reduce = run._reduce
        if reduce is None or run.total is None or len(run.back) < len(reduce.group):
            return []
        kind, clock, bucket = key
        del self.runs[key]
        self.recovery.end(bucket, kind, clock, run.total)
        return self.tell(reduce, run.total)
