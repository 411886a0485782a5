"""Population: workers train with different hyper-parameters, and the bad ones go on from what good ones have."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from random import Random

from weft.core.errors import ConfigError, did_you_mean
from weft.core.invariants import Invariant, holds
from weft.core.names import Carries, NodeId, Result, Role, Roles, Slot
from weft.core.peer import Peer
from weft.core.strategy import Entry, Strategy
from weft.core.world import World
from weft.strategies.parts.exploit_explore import COPY, KEPT, AgingPeer, ExploitExplorePeer, TruncatingPeer
from weft.strategies.parts.particle_swarm import LEADER, PERSONAL, POSITION, VELOCITY, SwarmPeer
from weft.strategies.parts.tournament import ASK, INTRODUCE, SCORE

METHODS: dict[str, type[ExploitExplorePeer] | type[SwarmPeer]] = {
    "pbt": TruncatingPeer,
    "evolution": AgingPeer,
    "pso": SwarmPeer,
}


@dataclass(frozen=True)
class Population(Strategy):
    """Training while searching for hyper-parameters: those that the script declares by `worker.tune`.

    Workers train alone; all but worker 0 begin with values multiplied by a random factor of at most `spread`.
    After every `period` epochs they tell each other their `score` (the epoch's mean training loss unless the script
    reports a number of that name), and then, by `method`:
    pbt (Jaderberg et al. 2017, section 3): the worst `fraction` copies the parameters and values of one of the best
    `fraction`, drawn at random, and multiplies every value by 1 - `perturb` or 1 + `perturb`.
    evolution (Real et al., AAAI 2019, section "Evolutionary algorithm"): the oldest `fraction` copies the best of
    `sample` others, drawn at random, and multiplies one value; an old one that is better than those lives on as a
    newborn. Of the same age, the worst goes first.
    pso (Lorenzo et al., GECCO 2017): nobody copies parameters. Values are drawn to where they were best so far, for
    this worker and for all: v = `inertia` v + a (own - x) + b (all - x), x += v, with a and b from 0 to `attraction`.
    A newcomer takes over parameters and values of the worker that was best in the last tournament that the lowest other
    worker knows of, or else that one's own, and varies the values as its method does: pso as at the start.
    A worker copies only from one with a better score. The result is the best worker's replica. Momentum and other
    state of the optimizer stay the worker's own.

    Assumes: every worker reports after every epoch; there are at least 2; the script keeps values within their ranges.
    """

    entry = Entry(
        "population",
        "population-based training (Jaderberg et al. 2017), regularized evolution, particle swarms",
        "workers try different hyper-parameters (`worker.tune`); bad ones copy good ones and vary them",
    )

    method: str = "pbt"
    period: int = 1
    score: str = "loss"
    fraction: float = 0.2
    sample: int = 3
    perturb: float = 0.2
    spread: float = 3.0
    inertia: float = 0.73
    attraction: float = 1.5

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ConfigError(f"method '{self.method}' is not known.\n  {did_you_mean(self.method, METHODS)}")
        for name, low, high, words, write in (
            ("period", 1, inf, "counts epochs, 1 or more", "1"),
            ("fraction", 1e-9, 0.5, "is a share of the workers, above 0 and at most 0.5", "0.2"),
            ("sample", 1, inf, "counts workers, 1 or more", "3"),
            ("perturb", 1e-9, 1 - 1e-9, "is a share of a value, between 0 and 1", "0.2"),
            ("spread", 1 + 1e-9, 1e9, "is a factor above 1", "3.0"),
            ("inertia", 0.0, 1 - 1e-9, "is from 0 to below 1", "0.73"),
            ("attraction", 1e-9, 1e9, "is above 0", "1.5"),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise ConfigError(f"{name} is {value}, but it {words}.\n  Use 'population({name}={write})'.")

    @property
    def result(self) -> Result:
        return Result.BEST

    @property
    def welcomes(self) -> bool:
        return True

    @property
    def scored(self) -> bool:
        return True

    @property
    def tunes(self) -> bool:
        return True

    def roles(self, num_workers: int) -> Roles:
        if num_workers < 2:
            raise ConfigError(
                "a population of 1 worker has nobody to learn from.\n"
                "  Use -n 2 or more; to train alone, leave the strategy out."
            )
        return Roles(num_workers)

    def slots(self, role: Role, world: World) -> tuple[Slot, ...]:
        names = (PERSONAL, LEADER, VELOCITY) if METHODS[self.method] is SwarmPeer else KEPT
        return tuple(Slot(name) for name in names)

    def kinds(self) -> Mapping[str, Carries]:
        sent = POSITION if METHODS[self.method] is SwarmPeer else COPY
        return {SCORE: Carries.NOTHING, ASK: Carries.NOTHING, INTRODUCE: Carries.NOTHING, sent: Carries.STATE}

    def invariants(self, world: World) -> tuple[Invariant, ...]:
        """A swarm copies no parameters; it compares the best scores so far, others those of this tournament."""
        copies = holds("lineage.newcomers_are_copies"), holds("lineage.newcomers_copy_the_best")
        if METHODS[self.method] is SwarmPeer:
            alone = (*copies, holds("once.workers_apply_once"), holds("once.workers_apply_their_own"))
            return (*alone, holds("lineage.asks_only_the_better", by="best"))
        return (*copies, holds("lineage.is_whole"), holds("lineage.asks_only_the_better", by="badness"))

    @classmethod
    def example_parameters(cls, rng: Random) -> Mapping[str, object]:
        return {"method": rng.choice(tuple(METHODS)), "period": rng.randint(1, 2), "fraction": 0.5}

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        if world.tuned is None:
            raise ConfigError(
                "a population needs hyper-parameters to change, but the script declares none.\n"
                "  Write e.g. worker.tune(lr=(1e-4, 1e-1)) after weft.join."
            )
        return METHODS[self.method](self, me, world, rng)
