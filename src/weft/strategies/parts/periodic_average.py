"""A periodic average: what local SGD, elastic averaging and the methods with an outer optimizer have in common."""

from random import Random

from weft.core.actions import Compute
from weft.core.events import Reduced, StepFinished
from weft.core.names import NodeId
from weft.core.peer import Actions
from weft.core.world import World
from weft.strategies.parts.local_step import apply_gradient
from weft.strategies.parts.reductions import ReducingPeer


class PeriodicAveragePeer(ReducingPeer):
    """Trains alone, and counts steps and samples since the last average; every `period` steps it averages again."""

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
