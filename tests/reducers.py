"""A strategy that does nothing but reduce its parameters, to look at collectives by themselves."""

from dataclasses import dataclass
from random import Random

from weft.core.actions import MEAN, Compute, Reduce
from weft.core.events import Reduced, StepFinished
from weft.core.names import Carries, NodeId
from weft.core.peer import Actions, Peer
from weft.core.strategy import Strategy
from weft.core.world import World


@dataclass(frozen=True)
class ReduceOnce(Strategy):
    """Reduces the only bucket of parameters after every step, weighted by samples."""

    op: str = MEAN

    def kinds(self) -> dict[str, Carries]:
        return {"all": Carries.STATE}

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        return ReduceOncePeer(self.op, me, world, rng)


class ReduceOncePeer(Peer):
    def __init__(self, op: str, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(me, world, rng)
        self._op = op

    def on_step_finished(self, event: StepFinished) -> Actions:
        self.step = event.step + 1
        return [Reduce(self.world.workers, "all", event.step, self.world.params[0], self._op, event.samples)]

    def on_reduced(self, event: Reduced) -> Actions:
        return [Compute(self.step)]
