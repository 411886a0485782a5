"""Ensemble: every worker trains a model of its own; together they predict the mean of what each predicts."""

from dataclasses import dataclass
from random import Random

from weft.core.actions import Compute
from weft.core.events import StepFinished
from weft.core.invariants import Invariant, holds
from weft.core.names import NodeId, Result
from weft.core.peer import Actions, Peer
from weft.core.strategy import Entry, Strategy
from weft.core.world import World
from weft.strategies.parts.local_step import apply_gradient


@dataclass(frozen=True)
class Ensemble(Strategy):
    """Independent replicas whose predictions are averaged (Hansen & Salamon, IEEE PAMI 1990).

    Nobody sends anything until the end. All members begin with worker 0's parameters and differ by their data
    and their random numbers. What the script's reported callables predict is the mean of all members: a torch
    model's every call runs each of them; arrays have no such call, so the numbers themselves are averaged.
    Nobody waits for a member that is lost. A newcomer is a member of its own: it takes nothing over, and trains from
    the parameters with which its script begins.
    """

    entry = Entry(
        "ensemble",
        "independent replicas (Hansen & Salamon 1990)",
        "nobody communicates; the members' predictions are averaged",
    )

    @property
    def result(self) -> Result:
        return Result.ENSEMBLE

    @property
    def allows_closures(self) -> bool:
        return True

    @property
    def welcomes(self) -> bool:
        return True

    @property
    def keeps_step(self) -> bool:
        return False

    def invariants(self, world: World) -> tuple[Invariant, ...]:
        return (holds("once.workers_apply_once"), holds("once.workers_apply_their_own"))

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        return EnsemblePeer(me, world, rng)


class EnsemblePeer(Peer):
    """Applies its worker's own gradients."""

    _inherits = ()

    def on_step_finished(self, event: StepFinished) -> Actions:
        self.step = event.step + 1
        return [*apply_gradient(self.world, event.samples), Compute(self.step)]
