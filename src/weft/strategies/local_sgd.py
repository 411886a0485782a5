"""Local SGD: workers train alone and average their parameters every few steps."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from weft.core.actions import MEAN, Compute, Reduce
from weft.core.errors import ConfigError
from weft.core.events import Reduced, StepFinished
from weft.core.names import Carries, NodeId, Result
from weft.core.peer import Actions, Peer
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.strategies.allreduce import apply_gradient


@dataclass(frozen=True)
class LocalSGD(Strategy):
    """Periodic model averaging (Povey et al. 2014; SparkNet, Moritz et al. 2015).

    Every `period` steps the parameters become their mean over all workers, weighted by the samples
    since the last average. period=1 equals `allreduce` for SGD and, while each worker's share of the
    samples stays the same, for momentum.
    """

    period: int = 8

    @property
    def result(self) -> Result:
        return Result.MEAN

    def __post_init__(self) -> None:
        if self.period < 1:
            raise ConfigError(
                f"period is {self.period}, but workers average after a whole number of steps.\n"
                "  Use 'local_sgd(period=1)' to average after every step."
            )

    def kinds(self) -> Mapping[str, Carries]:
        return {"average": Carries.STATE}

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        return LocalSGDPeer(self, me, world, rng)


class LocalSGDPeer(Peer):
    """Counts steps and samples since the last average."""

    def __init__(self, recipe: LocalSGD, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(me, world, rng)
        self._period = recipe.period
        self.samples = 0.0
        self.unreduced = 0

    def on_step_finished(self, event: StepFinished) -> Actions:
        self.step = event.step + 1
        self.samples += event.samples
        actions = apply_gradient(self.world, event.samples)
        if self.step % self._period:
            return [*actions, Compute(self.step)]
        self.unreduced = len(self.world.buckets)
        actions += [
            Reduce(self.world.workers, "average", event.step, self.world.params[bucket], MEAN, self.samples)
            for bucket in range(self.unreduced)
        ]
        self.samples = 0.0
        return actions

    def on_reduced(self, event: Reduced) -> Actions:
        self.unreduced -= 1
        return [] if self.unreduced else [Compute(self.step)]

    def waiting_for(self) -> str:
        if self.unreduced:
            return f"the average of the parameters after step {self.step - 1} ({self.unreduced} buckets to go)"
        return super().waiting_for()
