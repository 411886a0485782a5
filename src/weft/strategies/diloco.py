"""DiLoCo: many local steps, then one step of an outer optimizer with Nesterov momentum."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from weft.core.errors import ConfigError
from weft.core.invariants import Invariant
from weft.core.rules import Momentum
from weft.core.strategy import Entry
from weft.core.world import World
from weft.strategies.parts.outer_optimizer import OuterStrategy, check_momentum, check_rate
from weft.strategies.parts.reductions import average_invariants, check_period

OUTERS = ("nesterov", "momentum")


@dataclass(frozen=True)
class DiLoCo(OuterStrategy):
    """Distributed low-communication training (Douillard et al. 2023, algorithm 1).

    Workers train alone for `period` steps (the paper: 500). The mean of start - params over all workers is
    then the gradient of an outer step: v = momentum v + delta; start -= lr (delta + momentum v) with
    outer='nesterov', start -= lr v with outer='momentum'. All go on from there, each with the state that its
    own optimizer has. The paper's momentum is 0.9, for over a hundred such rounds; in a few dozen less is better.
    Use it where the network is slow: it sends `period` times less than `allreduce`.
    lr=1 and momentum=0 is `local_sgd`.

    Assumes: all workers begin with the same parameters.
    """

    entry = Entry(
        "diloco",
        "DiLoCo (Douillard et al. 2023)",
        "long local periods; the averaged change is one step of an outer optimizer",
    )

    period: int = 100
    outer: str = "nesterov"
    lr: float = 0.7
    momentum: float = 0.8

    def __post_init__(self) -> None:
        check_period("diloco", self.period)
        check_rate("diloco", "lr", self.lr)
        check_momentum("diloco", "momentum", self.momentum)
        if self.outer not in OUTERS:
            raise ConfigError(
                f"outer is '{self.outer}', but it is 'nesterov' or 'momentum'.\n"
                "  Use 'diloco(outer=nesterov)', or 'diloco(momentum=0)' for plain steps."
            )

    def rule(self, world: World) -> Momentum:
        return Momentum(self.lr, self.momentum, nesterov=self.outer == "nesterov")

    def invariants(self, world: World) -> tuple[Invariant, ...]:
        return average_invariants(self.period, self.lr, self.momentum, self.outer == "nesterov")

    @classmethod
    def example_parameters(cls, rng: Random) -> Mapping[str, object]:
        return {"period": rng.randint(1, 5), "outer": rng.choice(OUTERS)}
