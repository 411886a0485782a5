"""A strategy that does nothing but reduce its parameters, to look at collectives by themselves."""

from dataclasses import dataclass
from random import Random

from weft.core.actions import MEAN, Compute, Reduce
from weft.core.events import MembersChanged, Reduced, StepFinished
from weft.core.names import Carries, NodeId
from weft.core.peer import Actions, Peer
from weft.core.strategy import Strategy
from weft.core.world import World


@dataclass(frozen=True)
class ReduceOnce(Strategy):
    """Reduces every bucket of parameters after every step, weighted by samples; asks again when members change."""

    op: str = MEAN

    def kinds(self) -> dict[str, Carries]:
        return {"all": Carries.STATE}

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        return ReduceOncePeer(self.op, me, world, rng)


class ReduceOncePeer(Peer):
    def __init__(self, op: str, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(me, world, rng)
        self._op = op
        self.samples = 0.0
        self.unreduced: list[int] = []

    def on_step_finished(self, event: StepFinished) -> Actions:
        self.step = event.step + 1
        self.samples = event.samples
        self.unreduced = list(range(len(self.world.buckets)))
        return self._reduces()

    def _reduces(self) -> Actions:
        return [
            Reduce(self.workers, "all", self.step - 1, self.world.params[bucket], self._op, self.samples)
            for bucket in self.unreduced
        ]

    def on_reduced(self, event: Reduced) -> Actions:
        self.unreduced.remove(event.buffer.bucket)
        return [] if self.unreduced else [Compute(self.step)]

    def on_members_changed(self, event: MembersChanged) -> Actions:
        return self._reduces()
