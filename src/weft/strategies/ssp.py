"""Parameter server, from bulk-synchronous over stale-synchronous to asynchronous.

A push of step t is also the pull for step t + 1: the server answers it with its parameters, at once
or when every worker has pushed what the staleness bound asks for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from weft.core.actions import Apply, Combine, Compute, Note, Send, copy, rescale
from weft.core.errors import ConfigError
from weft.core.events import Received, Started, StepFinished
from weft.core.names import Buffer, Carries, NodeId, Result, Role, Roles, Slot
from weft.core.peer import Actions, Peer
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.strategies.shards import check_servers

PUSH = "push"
PULL = "params"
SUM = "ssp.sum"


@dataclass(frozen=True)
class StaleSync(Strategy):
    """Stale-synchronous parameter server (Ho et al., NIPS 2013, section 3).

    A worker may start step t once every worker has pushed step t - 1 - staleness.
    staleness=0 is bulk-synchronous: the server sums a step's weighted pushes and applies them once.
    staleness>0: each push is applied alone, its learning rate scaled by its share of the samples.
    staleness=None never waits. Buckets are dealt over `servers`; the optimizer runs there.

    Assumes: channels are FIFO per (source, target).
    """

    staleness: int | None = 3
    servers: int = 1

    @property
    def keeps_step(self) -> bool:
        return self.staleness is not None

    @property
    def result(self) -> Result:
        return Result.SERVERS

    def __post_init__(self) -> None:
        check_servers("ssp", self.servers)
        if self.staleness is not None and self.staleness < 0:
            raise ConfigError(
                f"staleness is {self.staleness}, but a worker cannot be less than 0 steps ahead.\n"
                "  Use 'ssp(staleness=0)' to stay in step, or 'ssp(staleness=None)' never to wait."
            )

    def roles(self, num_workers: int) -> Roles:
        return Roles(num_workers, self.servers)

    def slots(self, role: Role, world: World) -> tuple[Slot, ...]:
        return (Slot(SUM),) if role is Role.SERVER and self.staleness == 0 else ()

    def kinds(self) -> Mapping[str, Carries]:
        return {PUSH: Carries.GRADIENT, PULL: Carries.STATE}

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        if world.role(me) is Role.WORKER:
            return StaleSyncWorker(me, world, rng)
        return StaleSyncServer(self, me, world, rng)


@dataclass(frozen=True)
class ParameterServer(StaleSync):
    """Bulk-synchronous parameter server: `ssp` with staleness 0 unless told otherwise."""

    staleness: int | None = 0


class StaleSyncWorker(Peer):
    """Pushes its gradient, waits for the parameters of the next step."""

    def __init__(self, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(me, world, rng)
        self.missing = 0

    def on_step_finished(self, event: StepFinished) -> Actions:
        self.step = event.step + 1
        self.missing = len(self.world.trainable)
        return [
            Send(self.world.server_of(b), PUSH, event.step, b, self.world.gradient[b], event.samples)
            for b in self.world.trainable
        ]

    def on_received(self, event: Received) -> Actions:
        if event.kind != PULL or event.body is None or event.clock != self.step or not self.missing:
            raise self.unexpected(event)
        self.missing -= 1
        actions: Actions = [copy(self.world.params[event.bucket], event.body)]
        if not self.missing:
            actions.append(Compute(self.step))
        return actions

    def waiting_for(self) -> str:
        if self.missing:
            return f"the parameters of step {self.step} from the servers ({self.missing} buckets to go)"
        return super().waiting_for()


class Shard:
    """What a server knows of one of its buckets: who has pushed how much, and who waits."""

    def __init__(self, num_workers: int) -> None:
        self.pushed = [0] * num_workers
        """How many steps each worker has pushed."""
        self.slowest = 0
        """The least of them: every worker has pushed all steps below it."""
        self.num_slowest = num_workers
        """How many workers have pushed no more than that."""
        self.parked: list[tuple[NodeId, int]] = []
        """(worker, step) of the pulls that wait for slower workers."""
        self.samples: dict[int, float] = {}
        """The samples pushed for each step that is not full yet."""
        self.full: float | None = None
        """The samples of the last step that every worker has pushed."""

    def push(self, worker: NodeId, step: int, samples: float) -> bool:
        """Count a push; True when it was the last of its step."""
        self.samples[step] = self.samples.get(step, 0.0) + samples
        self.pushed[worker] += 1
        if step > self.slowest:
            return False
        self.num_slowest -= 1
        if self.num_slowest:
            return False
        self.slowest += 1
        self.num_slowest = self.pushed.count(self.slowest)
        self.full = self.samples.pop(step)
        return True

    def share(self, samples: float) -> float:
        """A push's share of the samples of the last full step; an equal share before there is one."""
        full = samples * len(self.pushed) if self.full is None else self.full
        return samples / full if full else 0.0


class StaleSyncServer(Peer):
    """Keeps the parameters of its buckets; answers a push when the staleness bound allows."""

    def __init__(self, recipe: StaleSync, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(me, world, rng)
        self._staleness = recipe.staleness
        self.shards = {bucket: Shard(world.num_workers) for bucket in world.buckets_of(me)}

    def on_started(self, event: Started) -> Actions:
        return []

    def on_received(self, event: Received) -> Actions:
        bucket, worker, step = event.bucket, event.source, event.clock
        shard = self.shards.get(bucket)
        if event.kind != PUSH or event.body is None or shard is None or step != shard.pushed[worker]:
            raise self.unexpected(event)
        actions: Actions = [Note("staleness", step - shard.slowest)]
        first = step not in shard.samples
        is_full = shard.push(worker, step, event.weight)
        if self._staleness == 0:
            total = Buffer(SUM, bucket)
            actions.append(Combine(total, 0.0 if first else 1.0, event.body, event.weight))
            if is_full and shard.full:
                actions += [rescale(total, 1.0 / shard.full), Apply(total, self.world.params[bucket])]
        else:
            actions.append(Apply(event.body, self.world.params[bucket], scale=shard.share(event.weight)))
        newest = shard.slowest + self._staleness if self._staleness is not None else step + 1
        if is_full or step + 1 > newest:
            shard.parked.append((worker, step + 1))
            ready = [pull for pull in shard.parked if pull[1] <= newest]
            shard.parked = [pull for pull in shard.parked if pull[1] > newest]
        else:
            ready = [(worker, step + 1)]
        return actions + [Send(to, PULL, clock, bucket, self.world.params[bucket]) for to, clock in ready]

    def waiting_for(self) -> str:
        for bucket, shard in self.shards.items():
            if shard.parked:
                slow = shard.pushed.index(shard.slowest)
                return (
                    f"worker {slow} to push step {shard.slowest} of bucket {bucket}; "
                    f"{len(shard.parked)} pulls are parked"
                )
        return "pushes"
