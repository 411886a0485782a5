"""Parameter server, from bulk-synchronous over stale-synchronous to asynchronous.

A push of step t is also the pull for step t + 1: the server answers it with its parameters, at once
or when every worker has pushed what the staleness bound asks for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random

from weft.core.actions import Note, copy
from weft.core.errors import ConfigError
from weft.core.events import Data, MembersChanged, Received, Started
from weft.core.invariants import Codecs, Invariant, holds
from weft.core.names import INBOX, Buffer, Carries, NodeId, Result, Role, Roles, Slot
from weft.core.peer import Actions, Peer
from weft.core.strategy import Entry, Strategy
from weft.core.world import World
from weft.strategies.parts.atomic_steps import ATOMIC_STEP_KINDS, SUM, AtomicStepServer, AtomicStepWorker
from weft.strategies.parts.late_gradients import APPLY, COMPENSATE, COMPENSATION, DAMP, REJECT, LateRule, remember, then
from weft.strategies.parts.shards import KINDS, ShardServer, ShardWorker, check_servers, lost_updates


@dataclass(frozen=True)
class StaleSync(Strategy):
    """Stale-synchronous parameter server (Ho et al., NIPS 2013, section 3).

    A worker may start step t once every worker has pushed step t - 1 - staleness.
    staleness=0 is bulk-synchronous: the server sums a step's weighted pushes and applies them once.
    staleness>0: each push is applied alone, its learning rate scaled by its share of the samples.
    staleness=None never waits. Buckets are dealt over `servers`; the optimizer runs there.

    `late` says what happens to a gradient that is some versions old: 'apply' takes it as it is; 'reject' drops one
    older than `max_age` versions and counts it; 'damp' divides its learning rate by its age (Zhang et al., IJCAI
    2016); 'compensate' adds `compensation` · g⊙g⊙(w_now - w_then) to it (Zheng et al., ICML 2017).

    A worker that is lost or has finished is no longer waited for. A newcomer gets the parameters from the servers, and
    begins with the step of the lowest other worker.

    Assumes: channels are FIFO per (source, target).
    """

    entry = Entry(
        "ssp",
        "stale-synchronous parameter server (Ho et al. 2013)",
        "the fastest is at most `staleness` steps ahead of the slowest; `none` never waits",
    )

    staleness: int | None = 3
    servers: int = 1
    late: str = APPLY
    max_age: int | None = None
    compensation: float = COMPENSATION

    @property
    def keeps_step(self) -> bool:
        return self.staleness is not None

    @property
    def averages_steps(self) -> bool:
        return self.staleness == 0

    @property
    def keeps_writes(self) -> bool:
        return False

    @property
    def welcomes(self) -> bool:
        return True

    @property
    def result(self) -> Result:
        return Result.SERVERS

    @property
    def late_rule(self) -> LateRule:
        """What happens to late gradients."""
        return LateRule(self.late, self.max_age, self.compensation)

    def __post_init__(self) -> None:
        check_servers("ssp", self.servers)
        if self.staleness is not None and self.staleness < 0:
            raise ConfigError(
                f"staleness is {self.staleness}, but a worker cannot be less than 0 steps ahead.\n"
                "  Use 'ssp(staleness=0)' to stay in step, or 'ssp(staleness=None)' never to wait."
            )
        self.late_rule.check(self.staleness)

    def roles(self, num_workers: int) -> Roles:
        return Roles(num_workers, self.servers)

    def slots(self, role: Role, world: World) -> tuple[Slot, ...]:
        if role is Role.WORKER:
            return ()
        return (Slot(SUM),) if self.staleness == 0 else self.late_rule.slots(world)

    def kinds(self) -> Mapping[str, Carries]:
        return ATOMIC_STEP_KINDS if self.staleness == 0 else KINDS

    def invariants(self, world: World) -> tuple[Invariant, ...]:
        always = [
            holds("once.servers_apply_once", Codecs.EXACT),
            holds("equality.copies_are_versions"),
            holds("residuals.are_applied_or_kept", Codecs.EXACT, may_drop=self.late == REJECT),
        ]
        if self.staleness is not None:
            always.append(holds("staleness.stays_within", Codecs.ANY, bound=self.staleness))
        if self.staleness != 0:
            return (*always, holds("shares.follow_from_whole_steps", is_damped=self.late == DAMP))
        in_step = ("once.servers_apply_means", "once.servers_count_alike", "equality.replicas_are_equal")
        return (*always, *map(holds, in_step))

    @classmethod
    def example_parameters(cls, rng: Random) -> Mapping[str, object]:
        lateness = ({"late": APPLY}, {"late": DAMP}, {"late": REJECT, "max_age": 3}, {"late": COMPENSATE})
        return {"staleness": rng.randint(1, 4), "servers": rng.randint(1, 3), **rng.choice(lateness)}

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        if world.role(me) is Role.WORKER:
            return (AtomicStepWorker if self.staleness == 0 else ShardWorker)(me, world, rng)
        if self.staleness == 0:
            return AtomicStepServer(me, world, rng)
        return StaleSyncServer(self, me, world, rng)


@dataclass(frozen=True)
class ParameterServer(StaleSync):
    """Bulk-synchronous parameter server: `ssp` with staleness 0 unless told otherwise."""

    entry = Entry(
        "ps",
        "bulk-synchronous parameter server",
        "servers sum a step's gradients and apply them once",
    )

    staleness: int | None = 0

    @classmethod
    def example_parameters(cls, rng: Random) -> Mapping[str, object]:
        return {"servers": rng.randint(1, 3)}


class ServerBucket:
    """What a server knows of one of its buckets: who has pushed how much, and who waits."""

    def __init__(self, workers: Iterable[NodeId]) -> None:
        self.pushed = dict.fromkeys(workers, 0)
        """How many steps each worker has pushed."""
        self.seen = dict(self.pushed)
        """The version on which each worker computes."""
        self.slowest = 0
        """The least number of steps pushed: every worker has pushed all steps below it."""
        self.num_slowest = len(self.pushed)
        """How many workers have pushed no more than that."""
        self.parked: list[tuple[NodeId, int]] = []
        """(worker, step) of the pulls that wait for slower workers."""
        self.samples: dict[int, dict[NodeId, float]] = {}
        """The samples pushed for each step that is not full yet; a newcomer's in place of its predecessor's."""
        self.full: float | None = None
        """The samples of the last step that every worker has pushed, and that had some."""
        self.known_from = 0
        """The first step all of whose pushes come here: a server that was moved missed some of those before."""

    def push(self, worker: NodeId, step: int, samples: float) -> bool:
        """Count a push; True when it was the last of its step."""
        self.samples.setdefault(step, {})[worker] = samples
        self.pushed[worker] += 1
        if step > self.slowest:
            return False
        self.num_slowest -= 1
        if self.num_slowest:
            return False
        self._advance(self.slowest + 1)
        return True

    def _advance(self, slowest: int) -> None:
        self.slowest = slowest
        self.num_slowest = sum(steps == slowest for steps in self.pushed.values())
        for step in sorted(step for step in self.samples if step < slowest):
            samples = sum(self.samples.pop(step).values())
            if samples and step >= self.known_from:
                self.full = samples

    def keep(self, workers: Iterable[NodeId]) -> None:
        """Go on with these workers only; what they wait for they push again."""
        self.parked.clear()
        self.pushed = {worker: self.pushed.get(worker, 0) for worker in workers}
        if self.pushed:
            self._advance(min(self.pushed.values()))

    def enter(self, newcomer: NodeId, pushed: int, version: int) -> None:
        """Count a newcomer as if it had pushed so many steps, and computed on this version next."""
        self.pushed[newcomer] = pushed
        self.seen[newcomer] = version
        self._advance(min(self.pushed.values()))

    def share(self, samples: float) -> float:
        """A push's share of the samples of the last full step; an equal share before there is one."""
        full = samples * len(self.pushed) if self.full is None else self.full
        return samples / full if full else 0.0


class StaleSyncServer(ShardServer):
    """Keeps the parameters of its buckets; answers a push when the staleness bound allows."""

    def __init__(self, recipe: StaleSync, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(me, world, rng)
        self._staleness = recipe.staleness
        self._late = recipe.late_rule
        self.shards = {bucket: ServerBucket(world.workers) for bucket in self._mine}
        self.num_unanswered = 0
        """Pushes that the server before it may have taken, and that were not answered: they are not applied again."""

    def on_started(self, event: Started) -> Actions:
        actions = super().on_started(event)
        if self._late.remembers and not self.is_empty:
            actions += [remember(worker, bucket) for worker in self.world.workers for bucket in self._mine]
        return actions

    def on_push(self, event: Received) -> Actions:
        bucket, worker, step = event.bucket, event.source, event.clock
        shard = self.shards[bucket]
        actions: Actions = []
        is_full = False
        if step == shard.pushed[worker]:
            actions.append(Note("staleness", step - shard.slowest))
            is_full = shard.push(worker, step, event.weight)
            actions += self._take(shard, event)
        elif step != shard.pushed[worker] - 1:  # a push that is repeated is only answered
            raise self.unexpected(event)
        newest = shard.slowest + self._staleness if self._staleness is not None else step + 1
        if is_full or step + 1 > newest:
            shard.parked.append((worker, step + 1))
            ready = [pull[0] for pull in shard.parked if pull[1] <= newest]
            shard.parked = [pull for pull in shard.parked if pull[1] > newest]
        else:
            ready = [worker]
        actions += self._answers(ready, bucket)
        return actions

    def _take(self, shard: ServerBucket, event: Received) -> Actions:
        """Apply a push by its share and its age."""
        assert event.body is not None
        bucket, worker = event.bucket, event.source
        age, share = self.versions[bucket] - shard.seen[worker], shard.share(event.weight)
        if share and not self._late.rejects(age):
            self.versions[bucket] += 1
        return self._late.update(worker, event.body, self.world.params[bucket], age, share)

    def _answers(self, workers: Iterable[NodeId], bucket: int) -> Actions:
        actions: Actions = []
        for worker in workers:
            self.shards[bucket].seen[worker] = self.versions[bucket]
            if self._late.remembers:
                actions.append(remember(worker, bucket))
            actions.append(self.answer(worker, bucket))
        return actions

    def on_members_changed(self, event: MembersChanged) -> Actions:
        self.num_unanswered = 0
        return super().on_members_changed(event)

    def regroup(self) -> Actions:
        for shard in self.shards.values():
            shard.keep(self.workers)
        return []

    def on_copy(self, worker: NodeId, bucket: int, version: int, data: Data) -> Actions:
        shard = self.shards[bucket]
        pushed = data["pushed"]
        assert isinstance(pushed, int)
        shard.pushed[worker] = pushed
        shard.seen[worker] = version
        self.num_unanswered += bool(data["unanswered"])
        return [copy(then(worker, bucket), Buffer(INBOX, bucket))] if self._late.remembers else []

    def enter(self, newcomer: NodeId, bucket: int, sponsor: NodeId) -> Actions:
        shard = self.shards[bucket]
        shard.enter(newcomer, shard.pushed[sponsor], self.versions[bucket])
        return [remember(newcomer, bucket)] if self._late.remembers else []

    def recover(self) -> Actions:
        for shard in self.shards.values():
            shard.known_from = max(shard.pushed.values(), default=0)
        return self.regroup() + lost_updates(self.num_unanswered)

    def waiting_for(self) -> str:
        for bucket, shard in self.shards.items():
            if shard.parked:
                slow = min(shard.pushed, key=shard.pushed.__getitem__)
                return (
                    f"worker {slow} to push step {shard.slowest} of bucket {bucket}; "
                    f"{len(shard.parked)} pulls are parked"
                )
        return super().waiting_for()
