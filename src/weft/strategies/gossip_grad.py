"""GossipGraD: workers average parameters with one partner at a time, and partners rotate."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from weft.core.errors import ConfigError
from weft.core.graph import Graph
from weft.core.invariants import Codecs, Invariant, holds
from weft.core.names import Carries, NodeId, Result, Role, Slot
from weft.core.peer import Peer
from weft.core.strategy import Entry, Strategy
from weft.core.world import World
from weft.strategies.gossip import MIX, STEP_FIRST, GossipPeer
from weft.strategies.parts.rounds import CROSSING
from weft.topologies import Topology
from weft.topologies.weights import AUTO

DISSEMINATION = "dissemination"
HYPERCUBE = "hypercube"
NUM_SHUFFLES = 8
"""After so many shuffles the partners repeat."""


@dataclass(frozen=True)
class GossipGrad(Strategy):
    """GossipGraD (Daily et al., "GossipGraD: Scalable Deep Learning using Gossip Communication", 2018).

    A worker applies its own gradient, then averages its parameters with one partner's: w = (w + received) / 2.
    schedule='dissemination': in round k it sends to i + 2^k and receives from i - 2^k, for any number of workers;
    'hypercube': it exchanges with the one whose number differs in bit k, for a power of two. After ceil(log2 N)
    rounds every update has reached every worker; then all take other numbers, drawn alike from `seed`.
    Every round is doubly stochastic, so the mean of all replicas moves only by the mean gradient.
    BatchNorm's means stay the worker's own. A newcomer takes over the parameters of the lowest other worker, and
    has partners from the next round on. For many workers: a step costs each one message, whatever their number.

    Assumes: channels are FIFO; a source is at most `graph.lead_max` steps ahead of its target.
    """

    entry = Entry(
        "gossip_grad",
        "GossipGraD (Daily et al. 2018)",
        "parameters are averaged with one partner at a time; partners rotate, so after log2 N steps all heard of all",
    )

    schedule: str = DISSEMINATION
    seed: int = 0

    @property
    def result(self) -> Result:
        return Result.MEAN

    @property
    def welcomes(self) -> bool:
        return True

    def __post_init__(self) -> None:
        if self.schedule not in (DISSEMINATION, HYPERCUBE):
            raise ConfigError(
                f"schedule is '{self.schedule}', but it is 'dissemination' or 'hypercube'.\n"
                "  Use 'gossip_grad(schedule=dissemination)', which fits any number of workers."
            )

    @property
    def _rotation(self) -> "Rotation":
        return Rotation(self.schedule, self.seed)

    def graph(self, num_workers: int) -> Graph:
        return self._rotation.graph(num_workers)

    def slots(self, role: Role, world: World) -> tuple[Slot, ...]:
        assert world.graph is not None
        return tuple(Slot(f"{MIX}.{i}") for i in range(world.graph.lead_max + 1))

    def kinds(self) -> Mapping[str, Carries]:
        return {MIX: Carries.STATE, **CROSSING}

    def invariants(self, world: World) -> tuple[Invariant, ...]:
        return (
            holds("conservation.ground_is_kept"),
            holds("lineage.newcomers_are_copies", Codecs.ANY),
            holds("mixing.moves_by_what_left", is_applied_first=True),
            holds("mixing.rounds_are_balanced"),
        )

    @classmethod
    def example_parameters(cls, rng: Random) -> Mapping[str, object]:
        return {"schedule": rng.choice((DISSEMINATION, HYPERCUBE)), "seed": rng.randint(0, 9)}

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        return GossipPeer(self._rotation, AUTO, me, world, rng, order=STEP_FIRST)


@dataclass(frozen=True)
class Rotation(Topology):
    """One partner in each round; after ceil(log2 N) rounds the places are shuffled."""

    schedule: str = DISSEMINATION
    seed: int = 0

    def build(self, num_places: int) -> Graph:
        num_bits = (num_places - 1).bit_length()
        if self.schedule == HYPERCUBE and num_places != 1 << num_bits:
            raise ConfigError(
                f"'gossip_grad(schedule=hypercube)' needs a power of two, but there are {num_places} workers.\n"
                f"  Use {1 << num_bits - 1} or {1 << num_bits} workers, or 'gossip_grad(schedule=dissemination)', "
                "which fits any number."
            )
        rng = Random(self.seed)
        order = list(range(num_places))
        rounds = []
        for _ in range(NUM_SHUFFLES):
            for bit in range(num_bits):
                partners = [self._partner(number, 1 << bit, num_places) for number in range(num_places)]
                targets = {order[number]: [order[partner]] for number, partner in enumerate(partners)}
                rounds.append([targets[place] for place in range(num_places)])
            _shuffle(order, rng)
        return Graph(rounds)

    def remade(self, num_places: int) -> Graph:
        """A hypercube that has lost a corner disseminates."""
        schedule = self.schedule if num_places.bit_count() == 1 else DISSEMINATION
        return Rotation(schedule, self.seed).graph(num_places)

    def _partner(self, number: int, distance: int, num_places: int) -> int:
        return number ^ distance if self.schedule == HYPERCUBE else (number + distance) % num_places


def _shuffle(order: list[int], rng: Random) -> None:
    """Only Random.random() is drawn from: it alone is promised to be the same in every Python."""
    for last in range(len(order) - 1, 0, -1):
        other = int(rng.random() * (last + 1))
        order[last], order[other] = order[other], order[last]
