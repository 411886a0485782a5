"""Parameter server, from bulk-synchronous over stale-synchronous to asynchronous.

A push of step t is also the pull for step t + 1: the server answers it with its parameters, at once
or when every worker has pushed what the staleness bound asks for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from weft.core.actions import Apply, Combine, Compute, Note, Send, copy, rescale
from weft.core.errors import ConfigError
from weft.core.events import Received, StepFinished
from weft.core.names import GRADIENT, PARAMS, Buffer, Carries, NodeId, Result, Role, Roles, Slot
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
            Send(self.world.server_of(b), PUSH, event.step, b, Buffer(GRADIENT, b), event.samples)
            for b in self.world.trainable
        ]

    def on_received(self, event: Received) -> Actions:
        if event.kind != PULL or event.body is None or event.clock != self.step or not self.missing:
            raise self.unexpected(event)
        self.missing -= 1
        actions: Actions = [copy(Buffer(PARAMS, event.bucket), event.body)]
        if not self.missing:
            actions.append(Compute(self.step))
        return actions

    def waiting_for(self) -> str:
        if self.missing:
            return f"the parameters of step {self.step} from the servers ({self.missing} buckets to go)"
        return super().waiting_for()


class StaleSyncServer(Peer):
    """Keeps the parameters of its buckets; answers a push when the staleness bound allows."""

    def __init__(self, recipe: StaleSync, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(me, world, rng)
        self._staleness = recipe.staleness
        mine = world.buckets_of(me)
        self.pushed = {b: [0] * world.num_workers for b in mine}
        """How many steps each worker has pushed, for each bucket."""
        self.parked: dict[int, list[tuple[NodeId, int]]] = {b: [] for b in mine}
        """(worker, step) of the pulls that wait for slower workers."""
        self.samples: dict[int, dict[int, float]] = {b: {} for b in mine}
        """The samples pushed for each step that is not full yet, for each bucket."""
        self.full: dict[int, float] = {}
        """The samples of the last step that every worker has pushed, for each bucket."""

    def on_started(self, event: object) -> Actions:
        return []

    def on_received(self, event: Received) -> Actions:
        bucket, worker = event.bucket, event.source
        pushed = self.pushed.get(bucket)
        if event.kind != PUSH or event.body is None or pushed is None or event.clock != pushed[worker]:
            raise self.unexpected(event)
        step, slowest = event.clock, min(pushed)
        actions: Actions = [Note("staleness", step - slowest)]
        pushed[worker] += 1
        samples = self.samples[bucket]
        first = step not in samples
        samples[step] = samples.get(step, 0.0) + event.weight
        is_full = min(pushed) > slowest
        if is_full:
            self.full[bucket] = samples.pop(slowest)
        if self._staleness == 0:
            actions += self._gather(bucket, event, first, is_full)
        else:
            scale = self._share(bucket, event.weight)
            actions.append(Apply(event.body, Buffer(PARAMS, bucket), scale=scale))
        self.parked[bucket].append((worker, step + 1))
        return actions + self._answers(bucket)

    def _gather(self, bucket: int, event: Received, first: bool, last: bool) -> Actions:
        """Sum the weighted pushes of one step; apply their mean when all are in."""
        total = Buffer(SUM, bucket)
        actions: Actions = [Combine(total, 0.0 if first else 1.0, event.body, event.weight)]
        if last and self.full[bucket]:
            actions += [rescale(total, 1.0 / self.full[bucket]), Apply(total, Buffer(PARAMS, bucket))]
        return actions

    def _share(self, bucket: int, weight: float) -> float:
        """This push's share of the samples of the last full step; an equal share before there is one."""
        full = self.full.get(bucket, weight * self.world.num_workers)
        return weight / full if full else 0.0

    def _answers(self, bucket: int) -> Actions:
        """Answer the parked pulls that the slowest worker no longer holds back."""
        slowest = min(self.pushed[bucket])
        ready: list[tuple[NodeId, int]] = []
        waiting: list[tuple[NodeId, int]] = []
        for worker, step in self.parked[bucket]:
            free = self._staleness is None or slowest >= step - self._staleness
            (ready if free else waiting).append((worker, step))
        self.parked[bucket] = waiting
        return [Send(worker, PULL, step, bucket, Buffer(PARAMS, bucket)) for worker, step in ready]

    def waiting_for(self) -> str:
        for bucket, parked in self.parked.items():
            if parked:
                pushed = self.pushed[bucket]
                slow = pushed.index(min(pushed))
                return f"worker {slow} to push step {pushed[slow]} of bucket {bucket}; {len(parked)} pulls are parked"
        return "pushes"
