"""BMUF: local SGD whose averages are filtered by a block momentum."""

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
class BMUF(OuterStrategy):
    """Blockwise model-update filtering (Chen & Huo, ICASSP 2016, section 2).

    A block is `period` steps of every worker. G is what the workers' mean has changed in it; the global
    model moves by D = block_momentum D + block_lr G. With `nesterov` the next block sets out one momentum
    ahead of it, at the model + block_momentum D, and G is counted from there. Without block_momentum it is
    1 - 1/N for N workers, so that a block counts in the long run as much as N workers one after another.
    Use it as `local_sgd` with more workers, where plain averages learn more slowly.
    block_lr=1 and block_momentum=0 is `local_sgd`.

    Assumes: all workers begin with the same parameters.
    """

    entry = Entry(
        "bmuf",
        "block momentum (Chen & Huo 2016)",
        "averages filtered by a momentum that grows with the workers' number",
    )

    period: int = 16
    block_momentum: float | None = None
    block_lr: float = 1.0
    nesterov: bool = True

    def __post_init__(self) -> None:
        check_period("bmuf", self.period)
        check_rate("bmuf", "block_lr", self.block_lr)
        if self.block_momentum is not None:
            check_momentum("bmuf", "block_momentum", self.block_momentum)

    def momentum(self, world: World) -> float:
        """With which a block counts in the long run as much as all workers one after another, unless told otherwise."""
        return 1.0 - 1.0 / world.num_workers if self.block_momentum is None else self.block_momentum

    def rule(self, world: World) -> Momentum:
        return Momentum(self.block_lr, self.momentum(world), self.nesterov)

    def invariants(self, world: World) -> tuple[Invariant, ...]:
        return average_invariants(self.period, self.block_lr, self.momentum(world), self.nesterov)

    @classmethod
    def example_parameters(cls, rng: Random) -> Mapping[str, object]:
        return {"period": rng.randint(1, 5), "nesterov": rng.choice((True, False))}
