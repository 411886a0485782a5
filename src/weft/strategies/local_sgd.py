"""Local SGD: workers train alone and average their parameters every few steps."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from weft.core.invariants import Invariant
from weft.core.names import Carries, NodeId, Result
from weft.core.peer import Peer
from weft.core.strategy import Entry, Strategy
from weft.core.world import World
from weft.strategies.parts.periodic_average import PeriodicAveragePeer
from weft.strategies.parts.reductions import average_invariants, check_period


@dataclass(frozen=True)
class LocalSGD(Strategy):
    """Periodic model averaging (Povey et al. 2014; SparkNet, Moritz et al. 2015).

    Every `period` steps the parameters become their mean over all workers, weighted by the samples
    since the last average. period=1 equals `allreduce` for SGD and, while each worker's share of the
    samples stays the same, for momentum.
    A newcomer comes in after an average, and takes it over.
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
    def welcomes(self) -> bool:
        return True

    @property
    def rest_period(self) -> int:
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
        return PeriodicAveragePeer(self.period, me, world, rng)
