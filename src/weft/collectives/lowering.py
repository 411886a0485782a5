"""Runs any strategy over a lowered collective: swallows Reduce, speaks in Send and Combine on parts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import Any

from weft.collectives.recovery import Recovery, kinds_of
from weft.collectives.schedule import Give, Hosts, Schedule, Scheduler, Take
from weft.core.actions import MAX, MEAN, Action, Combine, Reduce, Send, copy, rescale
from weft.core.errors import IllegalAction
from weft.core.events import Event, MembersChanged, Received, Reduced, Returned
from weft.core.graph import Graph
from weft.core.names import Buffer, Carries, NodeId, Part, Result, Role, Roles, Slot
from weft.core.peer import Actions, Peer
from weft.core.rules import Rule
from weft.core.strategy import Strategy
from weft.core.world import World


@dataclass(frozen=True)
class Lowered(Strategy):
    """`inner`, with every Reduce spoken as the messages of a schedule.

    Sums are made in slots of their own, so the inputs stay whole until the result is there (rule 12).
    A maximum cannot be said in Combine and stays an action. When members change, a reduction has ended for all
    survivors or for none, as their inner peers see it (decision 0017, promise 5).

    Assumes: a Reduce is of all workers of the view.
    """

    inner: Strategy
    name: str
    scheduler: Scheduler = field(repr=False)

    @property
    def result(self) -> Result:
        return self.inner.result

    @property
    def keeps_replicas_equal(self) -> bool:
        return self.inner.keeps_replicas_equal

    @property
    def allows_closures(self) -> bool:
        return self.inner.allows_closures

    @property
    def keeps_step(self) -> bool:
        return self.inner.keeps_step

    @property
    def deals_portions(self) -> bool:
        return self.inner.deals_portions

    @property
    def reduces(self) -> bool:
        return self.inner.reduces

    @property
    def shares_replica(self) -> bool:
        return self.inner.shares_replica

    def check(self, num_workers: int, num_hosts: int = 1) -> None:
        self.inner.check(num_workers, num_hosts)

    @property
    def speaks_reductions(self) -> bool:
        return True

    @property
    def scored(self) -> bool:
        return self.inner.scored

    @property
    def score(self) -> str:
        return self.inner.score

    @property
    def tunes(self) -> bool:
        return self.inner.tunes

    def roles(self, num_workers: int) -> Roles:
        return self.inner.roles(num_workers)

    def graph(self, num_workers: int) -> Graph | None:
        return self.inner.graph(num_workers)

    def slots(self, role: Role, world: World) -> tuple[Slot, ...]:
        hosts = hosts_of(world, world.workers)
        schedules = [_schedule(self.scheduler, rank, hosts) for rank in world.workers]
        early = {step.early for schedule in schedules for step in schedule if isinstance(step, Take)}
        mine = [f"{self.name}.sum.0", f"{self.name}.sum.1", *(f"{self.name}.early.{i}" for i in sorted(early))]
        return (*self.inner.slots(role, world), *map(Slot, mine))

    def kinds(self) -> Mapping[str, Carries]:
        inner = self.inner.kinds()
        told, handed = kinds_of(self.name)
        spoken = {f"{self.name}.{kind}": carries for kind, carries in inner.items()}
        return {**inner, **spoken, told: Carries.NOTHING, handed: Carries.STATE}

    def rules(self, world: World) -> Mapping[str, Rule]:
        return self.inner.rules(world)

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        return LoweredPeer(self, self.inner.peer(me, world, rng), me, world, rng)


@lru_cache(maxsize=4096)
def _schedule(scheduler: Scheduler, rank: int, hosts: Hosts) -> Schedule:
    return scheduler(rank, hosts)


def hosts_of(world: World, group: tuple[NodeId, ...]) -> Hosts:
    """Where the members of a group sit; all on one host if the world does not say."""
    return tuple(world.hosts[node] for node in group) if world.hosts else (0,) * len(group)


class Run:
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


Key = tuple[str, int, int]
"""Which Reduce a message belongs to: kind, clock, bucket."""


class LoweredPeer(Peer):
    """Wraps a peer. At most one Reduce of a bucket is under way; early messages wait for their turn."""

    def __init__(self, recipe: Lowered, inner: Peer, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(me, world, rng)
        self._inner = inner
        self._scheduler = recipe.scheduler
        self._name = recipe.name
        self._prefix = f"{recipe.name}."
        self._told, self._handed = kinds_of(recipe.name)
        self.runs: dict[Key, Run] = {}
        self.early: dict[Key, list[tuple[NodeId, float]]] = {}
        """The messages that came before their turn, in the order of each source."""
        self.recovery = Recovery(recipe.name, me, len(world.buckets))
        self._put_off: list[Reduce] = []
        """What the inner peer wants reduced, but has perhaps ended already for others."""

    @property
    def holds_user(self) -> bool:
        return self._inner.holds_user

    def snapshot(self) -> dict[str, Any]:
        return {**self._inner.snapshot(), self._name: super().snapshot()}

    def waiting_for(self) -> str:
        for worker in sorted(self.recovery.untold):
            return f"{self.world.name(worker)} to say which {self._name} reductions it has ended"
        for bucket, worker in self.recovery.owed.items():
            return f"{self.world.name(worker)} to hand on the {self._name} reduction of bucket {bucket}"
        for (kind, clock, bucket), run in self.runs.items():
            step = run._schedule[run.at]
            assert isinstance(step, Take)
            source = self.world.name(run._reduce.group[step.source])
            return f"{source} in the {self._name} reduction of '{kind}' (step {clock}, bucket {bucket})"
        return self._inner.waiting_for()

    def _forward(self, event: Event) -> Actions:
        """Tell the inner peer; begin what it wants reduced."""
        actions: Actions = []
        for action in self._inner.handle(event, self.now):
            if isinstance(action, Reduce) and action.op != MAX:
                actions += self._reduce(action)
            else:
                actions.append(action)
        return actions

    on_started = on_gradient_ready = on_step_finished = on_portion_asked = on_epoch_finished = _forward
    on_reduced = on_timer_fired = _forward

    def on_members_changed(self, event: MembersChanged) -> Actions:
        """What was under way never happened; what has ended for some is found out before anything begins."""
        self.runs.clear()
        self.early.clear()
        self._put_off.clear()
        told = self.recovery.begin(event.view, self.workers) if self.me in self.workers else []
        return [*told, *self._forward(event)]

    def on_returned(self, event: Returned) -> Actions:
        return super().on_returned(event) if self._is_mine(event.kind) else self._forward(event)

    def _is_mine(self, kind: str) -> bool:
        return kind.startswith(self._prefix) or kind == self._told or kind == self._handed

    def on_received(self, event: Received) -> Actions:
        if not self._is_mine(event.kind):
            return self._forward(event)
        if event.kind == self._told:
            return [*self.recovery.hear(event), *self._go_on()]
        if event.kind == self._handed:
            return [*self.recovery.take(event), *self._go_on()]
        key = (event.kind.removeprefix(self._prefix), event.clock, event.bucket)
        assert event.body is not None
        run = self.runs.get(key)
        if run is not None:
            step = run._schedule[run.at]
            if isinstance(step, Take) and run._reduce.group[step.source] == event.source:
                return [self._take(run, step, event.body, event.weight), *self._advance(key, run)]
        waiting = self.early.setdefault(key, [])
        waiting.append((event.source, event.weight))
        return [copy(self._early_buffer(event, run), event.body)]

    def _early_buffer(self, event: Received, run: Run | None) -> Buffer:
        """The memory for an early message: that of the take it is for."""
        assert event.body is not None
        group = run._reduce.group if run is not None else self.workers
        start = run.at if run is not None else 0
        schedule = run._schedule if run is not None else self._my_schedule(group)
        for step in schedule[start:]:
            if isinstance(step, Take) and group[step.source] == event.source and step.part == event.body.part:
                return Buffer(f"{self._name}.early.{step.early}", event.bucket, event.body.part)
        raise self.unexpected(event)

    def _my_schedule(self, group: tuple[NodeId, ...]) -> Schedule:
        return _schedule(self._scheduler, group.index(self.me), hosts_of(self.world, group))

    def _go_on(self) -> Actions:
        """More is known of what has ended: begin, or end, what was put off."""
        waiting, self._put_off = self._put_off, []
        return [action for reduce in waiting for action in self._reduce(reduce)]

    def _reduce(self, reduce: Reduce) -> Actions:
        """Do what the inner peer asks for, unless a survivor has done it: then its result counts."""
        bucket = reduce.buffer.bucket
        if self.recovery.blocks(bucket):
            self._put_off.append(reduce)
            return []
        weight = self.recovery.claim(reduce)
        return self._begin(reduce) if weight is None else self._tell(reduce, weight)

    def _begin(self, reduce: Reduce) -> Actions:
        bucket = reduce.buffer.bucket
        if any(other == bucket for _, _, other in self.runs):
            raise IllegalAction(f"{reduce} began while another Reduce of bucket {bucket} is under way.")
        key = (reduce.kind, reduce.clock, bucket)
        run = self.runs[key] = Run(reduce, self._my_schedule(reduce.group))
        into = self.recovery.sum(bucket)
        mine = Combine(into, 0.0, reduce.buffer, reduce.weight) if reduce.weight else rescale(into, 0.0)
        return [mine, *self._advance(key, run)]

    def _take(self, run: Run, step: Take, body: Buffer, weight: float) -> Action:
        run.take(step, weight)
        into = self.recovery.sum(run._reduce.buffer.bucket, step.part)
        return copy(into, body) if step.replace else Combine(into, 1.0, body)

    def _advance(self, key: Key, run: Run) -> Actions:
        """Go on until a message is missing or the schedule ends."""
        kind, clock, bucket = key
        group = run._reduce.group
        actions: Actions = []
        while run.at < len(run._schedule):
            step = run._schedule[run.at]
            if isinstance(step, Give):
                body, weight = self.recovery.sum(bucket, step.part), run.weight_of(step.part)
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
        del self.runs[key]
        self.early.pop(key, None)
        self.recovery.end(bucket, kind, clock, run.weight)
        return actions + self._tell(run._reduce, run.weight)

    def _tell(self, reduce: Reduce, total: float) -> Actions:
        """The sum is there: let the inner peer have what it asked for."""
        actions: Actions = []
        is_mean = reduce.op == MEAN
        if total and not (is_mean and total == reduce.weight and len(reduce.group) == 1):
            last = self.recovery.last_sum(reduce.buffer.bucket)
            actions.append(Combine(reduce.buffer, 0.0, last, 1.0 / total if is_mean else 1.0))
        return actions + self._forward(Reduced(reduce.clock, reduce.buffer, total))
