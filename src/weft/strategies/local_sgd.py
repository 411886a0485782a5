"""Local SGD: workers train alone and average their parameters every few steps."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from weft.core.actions import Compute
from weft.core.events import Reduced, StepFinished
from weft.core.invariants import Invariant
from weft.core.names import Carries, NodeId, Result
from weft.core.peer import Actions, Peer
from weft.core.strategy import Entry, Strategy
from weft.core.world import World
from weft.strategies.allreduce import apply_gradient
from weft.strategies.parts.reductions import ReducingPeer, average_invariants, check_period


@dataclass(frozen=True)
class LocalSGD(Strategy):
    """Periodic model averaging (Povey et al. 2014; SparkNet, Moritz et al. 2015).

    Every `period` steps the parameters become their mean over all workers, weighted by the samples
    since the last average. period=1 equals `allreduce` for SGD and, while each worker's share of the
    samples stays the same, for momentum.
    """

    entry = Entry(
        "local_sgd",
        "model averaging (Povey et al. 2014)",
        "workers train alone and average their parameters every `period` steps",
    )

    period: int = 8

    @property
    def reduces(self) -> bool:
        return True

    @property
    def first_exchange(self) -> int:
        return self.period

    @property
    def result(self) -> Result:
        return Result.MEAN

    def __post_init__(self) -> None:
        check_period("local_sgd", self.period)

    def kinds(self) -> Mapping[str, Carries]:
        return {"average": Carries.STATE}

    def invariants(self, world: World) -> tuple[Invariant, ...]:
        return average_invariants(self.period)

    @classmethod
    def example_parameters(cls, rng: Random) -> Mapping[str, object]:
        return {"period": rng.randint(1, 5)}

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        return LocalSGDPeer(self.period, me, world, rng)


class LocalSGDPeer(ReducingPeer):
    """Counts steps and samples since the last average."""

    def __init__(self, period: int, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(me, world, rng)
        self._period = period
        self.samples = 0.0

    def on_step_finished(self, event: StepFinished) -> Actions:
        self.step = event.step + 1
        self.samples += event.samples
        actions = apply_gradient(self.world, event.samples)
        if self.step % self._period:
            return [*actions, Compute(self.step)]
        return actions + self.average(event.step)

    def average(self, clock: int) -> Actions:
        """Begin the average."""
        return [self.reduce("average", clock, params, self.samples) for params in self.world.params]

    def on_reduced(self, event: Reduced) -> Actions:
        actions = [*super().on_reduced(event), *self.take(event)]
        if self.unreduced:
            return actions
        self.samples = 0.0
        return [*actions, Compute(self.step)]

    def take(self, event: Reduced) -> Actions:
        """What is done with the average of a bucket: here it is in its place already."""
        return []

    def waiting_for(self) -> str:
        if self.unreduced:
            return f"the average of the parameters after step {self.step - 1} ({self.unreduced} buckets to go)"
        return super().waiting_for()
