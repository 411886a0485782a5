"""SlowMo: local SGD whose averages carry a slow momentum."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from weft.core.invariants import Invariant
from weft.core.rules import Momentum
from weft.core.strategy import Entry
from weft.core.world import World
from weft.strategies.parts.outer_optimizer import OuterStrategy, check_momentum, check_rate
from weft.strategies.parts.reductions import average_invariants, check_period


@dataclass(frozen=True)
class SlowMo(OuterStrategy):
    """Slow momentum (Wang et al., ICLR 2020, algorithm 1) over local SGD.

    Every `period` steps, from x where all set out to their mean x': u = beta u + (x - x') / γ, then
    x -= alpha γ u, where γ is the workers' learning rate. Weft keeps γ u instead of u, which for a
    constant γ is the same and needs no learning rate: v = beta v + (x - x'); x -= alpha v. While a schedule
    lowers γ, the momentum here fades by beta alone, not also by the fall of γ. Each worker's own
    optimizer keeps its state.
    Use it as `local_sgd` when its accuracy falls behind with longer periods.
    alpha=1 and beta=0 is `local_sgd`.

    Assumes: all workers begin with the same parameters.
    """

    entry = Entry("slowmo", "slow momentum (Wang et al. 2020)", "averages carry a slow momentum")

    period: int = 12
    alpha: float = 1.0
    beta: float = 0.5

    def __post_init__(self) -> None:
        check_period("slowmo", self.period)
        check_rate("slowmo", "alpha", self.alpha)
        check_momentum("slowmo", "beta", self.beta)

    def rule(self, world: World) -> Momentum:
        return Momentum(self.alpha, self.beta)

    def invariants(self, world: World) -> tuple[Invariant, ...]:
        return average_invariants(self.period, self.alpha, self.beta)

    @classmethod
    def example_parameters(cls, rng: Random) -> Mapping[str, object]:
        return {"period": rng.randint(1, 5)}
