"""Synchronous steps that do not wait for the slowest: a step closes when enough gradients are in."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from random import Random

from weft.core.actions import Combine, Note, SetTimer, copy
from weft.core.errors import ConfigError
from weft.core.events import Received, Started, TimerFired
from weft.core.invariants import Codecs, Invariant, holds
from weft.core.names import Buffer, Carries, NodeId, Result, Role, Roles, Slot
from weft.core.peer import Actions, Peer
from weft.core.strategy import Entry, Strategy
from weft.core.world import World
from weft.strategies.parts.atomic_steps import ATOMIC_STEP_KINDS, SUM, AtomicStepServer, AtomicStepWorker
from weft.strategies.parts.shards import check_servers

DROP, CARRY = "drop", "carry"
FRACTION = 0.75
CARRIED = "quorum.carried"
PATIENCE = "patience"
LENGTHS_MAX = 15
"""Of how many steps the usual length is the median."""


@dataclass(frozen=True)
class Quorum(Strategy):
    """Steps by a quorum (Project Adam's 75 % rule, Chilimbi et al., OSDI 2014; backup workers, Chen et al. 2016).

    A step closes when a `fraction` of the workers' gradients are in (0.75 if nothing is said), or those of all but
    `backups` workers: their mean, weighted by samples, is applied once. Server 0 closes the step and names its
    members; all servers apply exactly those. A gradient that comes late is dropped whole (late='drop') or joins the
    mean of the open step without counting for its quorum (late='carry'); its worker computes the open step next.

    Both numbers are of the workers that are there: one that is lost or has finished is not waited for. When others
    have waited `patience` times as long as a step usually takes, the step closes without its quorum, with as much
    less of the learning rate; who was missing is not waited for until it pushes again. A newcomer gets the parameters
    of the open step from the servers, and counts for its quorum.

    Assumes: channels are FIFO per (source, target).
    """

    entry = Entry(
        "quorum",
        "75 % rule (Chilimbi et al. 2014), backup workers (Chen et al. 2016)",
        "a step closes when enough gradients are in; late ones are dropped or carried into the next",
    )

    fraction: float | None = None
    backups: int | None = None
    late: str = DROP
    servers: int = 1
    patience: float = 10.0

    @property
    def keeps_step(self) -> bool:
        return False

    @property
    def keeps_writes(self) -> bool:
        return False

    @property
    def allows_optimizers(self) -> bool:
        return False

    @property
    def welcomes(self) -> bool:
        return True

    @property
    def result(self) -> Result:
        return Result.SERVERS

    def __post_init__(self) -> None:
        check_servers("quorum", self.servers)
        if self.fraction is not None and self.backups is not None:
            raise ConfigError(
                f"fraction is {self.fraction} and backups is {self.backups}, but either says how many are waited for.\n"
                f"  Use 'quorum(fraction={self.fraction})' or 'quorum(backups={self.backups})'."
            )
        if self.fraction is not None and not 0 < self.fraction <= 1:
            raise ConfigError(
                f"fraction is {self.fraction}, but it is a share of the workers: above 0, at most 1.\n"
                f"  Use 'quorum(fraction={FRACTION})'."
            )
        if self.backups is not None and self.backups < 0:
            raise ConfigError(
                f"backups is {self.backups}, but it counts workers that are not waited for.\n"
                "  Use 'quorum(backups=1)', or 'ps' to wait for all."
            )
        if self.patience <= 0:
            raise ConfigError(
                f"patience is {self.patience}, but a step takes time.\n  Use 'quorum(patience=10)', or more."
            )
        if self.late not in (DROP, CARRY):
            raise ConfigError(f"late is '{self.late}', but it is 'drop' or 'carry'.\n  Use 'quorum(late=drop)'.")

    def num_needed(self, num_workers: int) -> int:
        """How many of so many workers close a step."""
        if self.backups is not None:
            return max(num_workers - self.backups, 1)
        fraction = FRACTION if self.fraction is None else self.fraction
        return ceil(fraction * num_workers - 1e-9)  # 0.55 of 20 is 11, though not in floating point

    def roles(self, num_workers: int) -> Roles:
        if self.backups is not None and self.backups >= num_workers:
            raise ConfigError(
                f"backups is {self.backups}, but there are {num_workers} workers, and at least 1 is waited for.\n"
                f"  Use 'quorum(backups={num_workers - 1})' or fewer, or 'quorum(fraction={FRACTION})'."
            )
        return Roles(num_workers, self.servers)

    def slots(self, role: Role, world: World) -> tuple[Slot, ...]:
        if role is Role.WORKER:
            return ()
        carried = (Slot(CARRIED),) if self.late == CARRY else ()
        return (Slot(SUM), *carried, *(Slot(pushed_by(worker, 0).slot) for worker in world.workers))

    def kinds(self) -> Mapping[str, Carries]:
        return ATOMIC_STEP_KINDS

    def invariants(self, world: World) -> tuple[Invariant, ...]:
        return (
            holds("once.servers_apply_once", Codecs.EXACT),
            holds("once.servers_apply_means", may_be_less=True),
            holds("once.servers_count_alike"),
            holds("equality.copies_are_versions"),
            holds("quorums.are_on_time", num_needed=self.num_needed, may_carry=self.late == CARRY),
            # a gradient that is late when the last step closes is dropped, though others are carried
            holds("residuals.are_applied_or_kept", Codecs.EXACT, may_drop=True),
        )

    @classmethod
    def example_parameters(cls, rng: Random) -> Mapping[str, object]:
        needed = ({"fraction": 0.5}, {"fraction": 0.75}, {"backups": 1})
        return {**rng.choice(needed), "late": rng.choice((DROP, CARRY)), "servers": rng.randint(1, 3)}

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        if world.role(me) is Role.WORKER:
            return AtomicStepWorker(me, world, rng)
        return QuorumServer(self, me, world, rng)


def pushed_by(worker: NodeId, bucket: int) -> Buffer:
    """Where a server keeps a worker's gradient until it is known whether it counts."""
    return Buffer(f"quorum.from.{worker}", bucket)


class QuorumServer(AtomicStepServer):
    """Keeps each worker's push apart, because who counts is known only when the step closes."""

    def __init__(self, recipe: Quorum, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(me, world, rng)
        self._recipe = recipe
        self.opened_s = 0.0
        """When the step was opened."""
        self.lengths_s: list[float] = []
        """How long the last steps were open."""
        self.timed: int | None = None
        """The step whose end of patience is set."""
        self.absent: set[NodeId] = set()
        """Workers that others have waited for too long."""
        self.samples_carried = 0.0
        """The samples of the gradients that are carried."""

    def on_started(self, event: Started) -> Actions:
        self.opened_s = self.now
        return super().on_started(event)

    def enter(self, newcomer: NodeId, bucket: int, sponsor: NodeId) -> Actions:
        self.absent.discard(newcomer)
        return super().enter(newcomer, bucket, sponsor)

    def num_needed(self) -> int:
        return self._recipe.num_needed(len(self.workers) - len(self.absent.intersection(self.workers)))

    def num_told(self) -> int:
        return 1

    def keep(self, event: Received) -> Actions:
        assert event.body is not None
        self.absent.discard(event.source)
        return [copy(pushed_by(event.source, event.bucket), event.body)]

    def carry(self, workers: list[NodeId]) -> Actions:
        if self._recipe.late == DROP:
            return [Note("dropped", len(workers))] if self.is_first and workers else []
        actions: Actions = []
        for worker in workers:
            for b in self._mine:
                kept = 1.0 if self.carried else 0.0
                actions.append(Combine(Buffer(CARRIED, b), kept, pushed_by(worker, b), self.samples[worker]))
            self.samples_carried = self.samples[worker] + (self.samples_carried if self.carried else 0.0)
            self.carried[worker] = self.pushed[worker]
        return actions

    def mean(self, members: list[NodeId]) -> Actions:
        carried = self.samples_carried if self.carried else 0.0
        total = carried + sum(self.samples[worker] for worker in members)
        if not total:
            return []
        actions: Actions = []
        for b in self._mine:
            mean = Buffer(SUM, b)
            terms = [(pushed_by(worker, b), self.samples[worker] / total) for worker in sorted(members)]
            if carried:
                terms.append((Buffer(CARRIED, b), 1.0 / total))
            actions += [Combine(mean, 1.0 if i else 0.0, gradient, share) for i, (gradient, share) in enumerate(terms)]
        return actions

    def scale(self, members: list[NodeId]) -> float:
        return min(1.0, len(members) / self._recipe.num_needed(len(self.workers)))

    def tell_whole(self) -> Actions:
        """When the first gradient of a step is whole, patience with the others begins."""
        actions = super().tell_whole()
        if self.is_first and self.whole and self.timed != self.clock and self.lengths_s:
            self.timed = self.clock
            actions.append(SetTimer(PATIENCE, self.now + self._recipe.patience * self._usual_s()))
        return actions

    def _usual_s(self) -> float:
        """The median length of the last steps."""
        return sorted(self.lengths_s)[len(self.lengths_s) // 2]

    def close(self) -> Actions:
        self.lengths_s = [*self.lengths_s[1 - LENGTHS_MAX :], self.now - self.opened_s]
        self.opened_s = self.now
        return super().close()

    def on_timer_fired(self, event: TimerFired) -> Actions:
        if self.timed != self.clock:
            return []
        self.timed = None
        whole = self.whole_everywhere()
        if not whole:
            return []  # patience begins again with the next news
        self.absent = set(self.workers) - whole
        return self.tell_whole()
