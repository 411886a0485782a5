"""Decentralized parallel SGD: workers average parameters with their neighbours only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from weft.core.actions import Combine, Compute, Note, Send, copy, rescale
from weft.core.errors import ConfigError
from weft.core.events import Received, Started, StepFinished
from weft.core.graph import Graph
from weft.core.names import PARAMS, Buffer, Carries, NodeId, Result, Role, Slot
from weft.core.peer import Actions, Peer
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.strategies.allreduce import apply_gradient
from weft.topologies import Exponential, Topology
from weft.topologies.weights import Mixing, mixing

MIX = "mix"
OVERLAP = "overlap"
STEP_FIRST = "step_first"


@dataclass(frozen=True)
class Gossip(Strategy):
    """D-PSGD (Lian et al., NIPS 2017, algorithm 1).

    order='overlap': w_i = Σ_j W_ij w_j - η g_i; parameters travel while the gradient is computed.
    order='step_first': w_i = Σ_j W_ij (w_j - η g_j). W is doubly stochastic, so the mean of all
    replicas moves only by the mean gradient. On the complete graph step_first weighs by samples,
    which makes it equal `allreduce`; elsewhere weighing would bias the mean, so W stands alone.
    Only trained buckets are mixed: BatchNorm's means stay the worker's own.

    Assumes: channels are FIFO; a source is at most `graph.lead_max` steps ahead of its target.
    """

    topology: Topology = field(default_factory=Exponential)
    weights: str = "auto"
    order: str = OVERLAP

    @property
    def result(self) -> Result:
        return Result.MEAN

    def __post_init__(self) -> None:
        if self.order not in (OVERLAP, STEP_FIRST):
            raise ConfigError(
                f"order is '{self.order}', but it is 'overlap' or 'step_first'.\n"
                "  Use 'gossip(order=overlap)' to mix while the gradient is computed."
            )

    def graph(self, num_workers: int) -> Graph:
        graph = self.topology.graph(num_workers)
        mixing(graph, self.weights)
        return graph

    def slots(self, role: Role, world: World) -> tuple[Slot, ...]:
        assert world.graph is not None
        return tuple(Slot(f"{MIX}.{i}") for i in range(world.graph.lead_max + 1))

    def kinds(self) -> Mapping[str, Carries]:
        return {MIX: Carries.STATE}

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        assert world.graph is not None
        return GossipPeer(self, mixing(world.graph, self.weights), me, world, rng)


class GossipPeer(Peer):
    """Adds up weighted parameters, one sum for each step that may be under way."""

    def __init__(self, recipe: Gossip, weights: Mixing, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(me, world, rng)
        assert world.graph is not None
        self._graph = world.graph
        self._weights = weights
        self._step_first = recipe.order == STEP_FIRST
        self._by_samples = self._step_first and self._graph.degree == world.num_workers - 1
        self._num_sums = self._graph.lead_max + 1
        self.arrived: dict[int, dict[int, set[NodeId]]] = {}
        """Whose parameters are in the sums, by clock and bucket."""
        self.total: dict[int, float] = {}
        """The weights of the parameters in a clock's sums, over all buckets."""
        self.is_mixing = False
        """The step is finished here, and its neighbours' parameters are awaited."""

    def on_started(self, event: Started) -> Actions:
        return [Compute(0)] if self._step_first else [*self._offer(0, 1.0), Compute(0)]

    def _offer(self, clock: int, samples: float) -> Actions:
        """Put the own parameters into the sum and send them to all targets of this clock."""
        actions: Actions = []
        targets = self._graph.targets(self.me, clock)
        keep = samples if self._by_samples else self._weights.keep(self.me, clock)
        for bucket in self.world.trainable:
            actions.append(self._add(self.me, clock, bucket, Buffer(PARAMS, bucket), keep))
            actions += [Send(to, MIX, clock, bucket, Buffer(PARAMS, bucket), samples) for to in targets]
        return actions

    def _add(self, source: NodeId, clock: int, bucket: int, body: Buffer, weight: float) -> Combine:
        arrived = self.arrived.get(clock)
        if arrived is None:
            arrived = self.arrived[clock] = {b: set() for b in self.world.trainable}
            self.total[clock] = 0.0
        keep = 1.0 if arrived[bucket] else 0.0
        arrived[bucket].add(source)
        self.total[clock] += weight
        return Combine(Buffer(f"{MIX}.{clock % self._num_sums}", bucket), keep, body, weight)

    def on_step_finished(self, event: StepFinished) -> Actions:
        self.step = event.step + 1
        self.is_mixing = True
        actions: Actions = []
        if self._step_first:
            actions = [*apply_gradient(self.world), *self._offer(event.step, event.samples)]
        return actions + self._mix_if_complete()

    def on_received(self, event: Received) -> Actions:
        if event.kind != MIX or event.body is None:
            raise self.unexpected(event)
        clock = event.clock
        weight = event.weight if self._by_samples else self._weights.row(self.me, clock)[event.source]
        actions: Actions = [self._add(event.source, clock, event.bucket, event.body, weight)]
        return actions + self._mix_if_complete() if self.is_mixing else actions

    def _mix_if_complete(self) -> Actions:
        clock = self.step - 1
        if self._missing(clock):
            return []
        self.is_mixing = False
        del self.arrived[clock]
        total = self.total.pop(clock) / len(self.world.trainable)
        actions: Actions = [Note("staleness", 0)]
        for bucket in self.world.trainable:
            sum_ = Buffer(f"{MIX}.{clock % self._num_sums}", bucket)
            if self._by_samples:
                if not total:
                    continue
                actions.append(rescale(sum_, 1.0 / total))
            actions.append(copy(Buffer(PARAMS, bucket), sum_))
        if self._step_first:
            return [*actions, Compute(self.step)]
        return [*actions, *apply_gradient(self.world), *self._offer(self.step, 1.0), Compute(self.step)]

    def _missing(self, clock: int) -> list[NodeId]:
        """Whose parameters of a clock have not all arrived."""
        arrived = self.arrived.get(clock)
        if arrived is None:
            return [self.me]
        expected = len(self._graph.sources(self.me, clock)) + 1
        if all(len(sources) == expected for sources in arrived.values()):
            return []
        everyone = {self.me, *self._graph.sources(self.me, clock)}
        return sorted({node for sources in arrived.values() for node in everyone - sources})

    def waiting_for(self) -> str:
        if not self.is_mixing:
            return super().waiting_for()
        names = ", ".join(str(source) for source in self._missing(self.step - 1))
        return f"the parameters of step {self.step - 1} from worker {names}"
