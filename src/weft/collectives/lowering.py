"""Runs any strategy over a lowered collective: swallows Reduce, speaks in Send and Combine on parts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random

from weft.collectives.speaking import Key, SpeakingPeer, spoken_kinds
from weft.collectives.wrapping import Wrapped
from weft.core.actions import Action, Combine, Encode, Reduce, Send, copy, rescale
from weft.core.coding import Coding
from weft.core.errors import IllegalAction
from weft.core.events import Received
from weft.core.names import Buffer, Carries, NodeId, Part, Role, Slot
from weft.core.peer import Actions, Peer
from weft.core.schedule import Give, Hosts, Schedule, Scheduler, Take, first_of_each
from weft.core.world import World


@dataclass(frozen=True)
class Wire:
    """In which code the messages of a kind travel from hop to hop."""

    kind: str
    codec: Coding
    is_exact: bool
    """Nothing is lost. Otherwise whoever sends goes on with what it has sent, so that all replicas stay equal."""


@dataclass(frozen=True)
class Lowered(Wrapped):
    """`inner`, with every Reduce spoken as the messages of a schedule.

    Sums are made in slots of their own, so the inputs stay whole until the result is there (rule 12 of
    docs/architecture.md). What is coded and adds up is summed without being decoded, if the schedule does not cut it
    in parts.

    Assumes: a Reduce is of all workers of the view, or of a kind that is `by_firsts`.
    """

    name: str
    scheduler: Scheduler = field(repr=False)
    wires: tuple[Wire, ...] = ()
    by_firsts: tuple[str, ...] = ()
    """Kinds that only the first workers of all hosts reduce."""

    @property
    def speaks_reductions(self) -> bool:
        return True

    def slots(self, role: Role, world: World) -> tuple[Slot, ...]:
        hosts = hosts_of(world, world.workers)
        schedules = [_schedule(self.scheduler, rank, hosts) for rank in world.workers]
        if self.by_firsts:
            alone = tuple(dict.fromkeys(hosts))
            schedules += [_schedule(self.scheduler, rank, alone) for rank in range(len(alone))]
        early = {step.early for schedule in schedules for step in schedule if isinstance(step, Take)}
        mine = [f"{self.name}.sum.0", f"{self.name}.sum.1", *(f"{self.name}.early.{i}" for i in sorted(early))]
        if self.wires:
            mine.append(f"{self.name}.wire")
        return (*self.inner.slots(role, world), *map(Slot, mine))

    def kinds(self) -> Mapping[str, Carries]:
        inner = dict(self.inner.kinds())
        return {**inner, **spoken_kinds(self.name, inner)}

    def codecs(self) -> Mapping[str, Coding]:
        return {**self.inner.codecs(), **{f"{self.name}.{wire.kind}": wire.codec for wire in self.wires}}

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        return LoweredPeer(self, self.inner.peer(me, world, rng), me, world, rng)


@lru_cache(maxsize=4096)
def _schedule(scheduler: Scheduler, rank: int, hosts: Hosts) -> Schedule:
    return scheduler(rank, hosts)


def hosts_of(world: World, group: tuple[NodeId, ...]) -> Hosts:
    """Where the members of a group sit; all on one host if the world does not say."""
    return tuple(world.hosts[node] for node in group) if world.hosts else (0,) * len(group)


class LoweredReduce:
    """One Reduce under way: how far its schedule has come and what weights the parts of the own sum have."""

    def __init__(self, reduce: Reduce, schedule: Schedule) -> None:
        self._reduce = reduce
        self._schedule = schedule
        self.at = 0
        self.weight = reduce.weight
        """Of the part that was taken last; in the end all parts have the same."""
        self._of = 1
        self._base = reduce.weight
        self._weights: dict[Part | None, float] = {}
        """Of the parts of the present size (`_of` make a bucket) that were taken; the others have `_base`.

        When a schedule goes on with parts of another size, it does so with what it took last.
        """

    def weight_of(self, part: Part | None) -> float:
        """The weight of a part of the own sum."""
        return self._weights.get(part, self._base) if _of(part) == self._of else self.weight

    def take(self, step: Take, weight: float) -> None:
        """A part came with this weight."""
        part = step.part
        if _of(part) != self._of:
            self._of, self._base, self._weights = _of(part), self.weight, {}
        self.weight = weight if step.replace else weight + self.weight_of(part)
        self._weights[part] = self.weight
        self.at += 1


def _of(part: Part | None) -> int:
    return 1 if part is None else part.of


class LoweredPeer(SpeakingPeer):
    """Wraps a peer. At most one Reduce of a bucket is under way; early messages wait for their turn."""

    def __init__(self, recipe: Lowered, inner: Peer, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(recipe.name, inner, me, world, rng)
        self._scheduler = recipe.scheduler
        self._wires = {wire.kind: wire for wire in recipe.wires}
        self._by_firsts = frozenset(recipe.by_firsts)
        self._coded = frozenset(recipe.inner.codecs())
        self.runs: dict[Key, LoweredReduce] = {}
        self.early: dict[Key, list[tuple[NodeId, float]]] = {}
        """The messages that came before their turn, in the order of each source."""

    def waiting_for(self) -> str:
        for (kind, clock, bucket), run in self.runs.items():
            step = run._schedule[run.at]
            assert isinstance(step, Take)
            source = self.world.name(run._reduce.group[step.source])
            return f"{source} in the {self._name} reduction of '{kind}' (step {clock}, bucket {bucket})"
        return super().waiting_for()

    def forget(self) -> None:
        self.runs.clear()
        self.early.clear()

    def take(self, event: Received, key: Key) -> Actions:
        assert event.body is not None
        run = self.runs.get(key)
        if run is not None:
            step = run._schedule[run.at]
            came = event.source, event.body.part
            if isinstance(step, Take) and (run._reduce.group[step.source], step.part) == came:
                return [self._take(run, step, event.body, event.weight), *self._advance(key, run)]
        waiting = self.early.setdefault(key, [])
        waiting.append((event.source, event.weight))
        return [copy(self._early_buffer(event, key[0], run), event.body)]

    def _group(self, kind: str) -> tuple[NodeId, ...]:
        """Those that reduce a kind."""
        if kind not in self._by_firsts:
            return self.workers
        return tuple(self.workers[rank] for rank in first_of_each(hosts_of(self.world, self.workers)))

    def _early_buffer(self, event: Received, kind: str, run: LoweredReduce | None) -> Buffer:
        """The memory for an early message: that of the take it is for."""
        assert event.body is not None
        group = run._reduce.group if run is not None else self._group(kind)
        start = run.at if run is not None else 0
        schedule = run._schedule if run is not None else self._my_schedule(group)
        for step in schedule[start:]:
            if isinstance(step, Take) and group[step.source] == event.source and step.part == event.body.part:
                return Buffer(f"{self._name}.early.{step.early}", event.bucket, event.body.part)
        raise self.unexpected(event)

    def _my_schedule(self, group: tuple[NodeId, ...]) -> Schedule:
        return _schedule(self._scheduler, group.index(self.me), hosts_of(self.world, group))

    def begin(self, reduce: Reduce) -> Actions:
        bucket = reduce.buffer.bucket
        if any(other == bucket for _, _, other in self.runs):
            raise IllegalAction(f"{reduce} began while another Reduce of bucket {bucket} is under way.")
        key = (reduce.kind, reduce.clock, bucket)
        run = self.runs[key] = LoweredReduce(reduce, self._my_schedule(reduce.group))
        into = self.recovery.sum(bucket)
        mine: Actions = [Combine(into, 0.0, reduce.buffer, reduce.weight)]
        if not reduce.weight:  # where others bring what is coded, nothing in the same code
            mine = [copy(into, reduce.buffer)] if reduce.kind in self._coded else []
            mine.append(rescale(into, 0.0))
        return [*mine, *self._advance(key, run)]

    def _take(self, run: LoweredReduce, step: Take, body: Buffer, weight: float) -> Action:
        run.take(step, weight)
        into = self.recovery.sum(run._reduce.buffer.bucket, step.part)
        return copy(into, body) if step.replace else Combine(into, 1.0, body)

    def _advance(self, key: Key, run: LoweredReduce) -> Actions:
        """Go on until a message is missing or the schedule ends."""
        kind, clock, bucket = key
        group = run._reduce.group
        actions: Actions = []
        while run.at < len(run._schedule):
            step = run._schedule[run.at]
            if isinstance(step, Give):
                body, weight = self.recovery.sum(bucket, step.part), run.weight_of(step.part)
                if kind in self._wires:
                    actions += self._encode(self._wires[kind], clock, body)
                    body = self._wire(body)
                actions.append(Send(group[step.to], self._prefix + kind, clock, bucket, body, weight))
                run.at += 1
                continue
            waiting = self.early.get(key, [])
            found = next((i for i, (source, _) in enumerate(waiting) if source == group[step.source]), None)
            if found is None:
                return actions
            _, weight = waiting.pop(found)
            body = Buffer(f"{self._name}.early.{step.early}", bucket, step.part)
            actions.append(self._take(run, step, body, weight))
        wire = self._wires.get(kind)
        if wire is not None and not wire.is_exact and len(group) & (len(group) - 1):
            # who sends the result to one that is left over of a power of two has cast it once more than the others
            actions += self._encode(wire, clock, self.recovery.sum(bucket))
        del self.runs[key]
        self.early.pop(key, None)
        self.recovery.end(bucket, kind, clock, run.weight)
        return actions + self.tell(run._reduce, run.weight)

    def _wire(self, body: Buffer) -> Buffer:
        return Buffer(f"{self._name}.wire", body.bucket, body.part)

    def _encode(self, wire: Wire, clock: int, body: Buffer) -> Actions:
        coded = self._wire(body)
        encode = Encode(self._prefix + wire.kind, clock, coded, body)
        return [encode] if wire.is_exact else [encode, copy(body, coded)]
