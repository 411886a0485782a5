"""Decentralized parallel SGD: workers average parameters with their neighbours only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from weft.core.actions import Combine, Compute, Send, copy
from weft.core.errors import ConfigError
from weft.core.events import Received, Started, StepFinished
from weft.core.graph import Graph
from weft.core.names import Buffer, Carries, NodeId, Result, Role, Slot
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
    which makes it equal `allreduce` (for momentum while each worker's share of the samples stays the
    same); elsewhere weighing would bias the mean, so W stands alone.
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
        is_complete = world.graph.edges_per_step == world.num_workers * (world.num_workers - 1)
        by_samples = self.order == STEP_FIRST and is_complete
        return GossipPeer(mixing(world.graph, self.weights), me, world, rng, order=self.order, by_samples=by_samples)


class Gathering:
    """The parameters of one clock that are in its sums, and how many bodies are missing.

    `row` holds the mixing weights, or is None where samples are the weights.
    """

    def __init__(self, sums: Mapping[int, Buffer], num_sources: int, row: Mapping[NodeId, float] | None) -> None:
        self._sums = sums
        self._row = row
        self.missing = num_sources * len(sums)
        self.weight = 0.0
        """The samples in the sums, over all buckets, where samples are the weights."""
        self.arrived: dict[int, list[NodeId]] = {}
        """Whose parameters are in the sum of each bucket."""

    def add(self, source: NodeId, bucket: int, body: Buffer, samples: float) -> Combine:
        self.missing -= 1
        if self._row is None:
            weight = samples
            self.weight += samples
        else:
            weight = self._row[source]
        arrived = self.arrived.get(bucket)
        if arrived is None:
            self.arrived[bucket] = [source]
            return Combine(self._sums[bucket], 0.0, body, weight)
        arrived.append(source)
        return Combine(self._sums[bucket], 1.0, body, weight)


class GossipPeer(Peer):
    """Adds up weighted parameters, one sum for each step that may be under way."""

    def __init__(
        self, weights: Mixing, me: NodeId, world: World, rng: Random, *, order: str, by_samples: bool = False
    ) -> None:
        super().__init__(me, world, rng)
        self._graph = weights.graph
        self._step_first = order == STEP_FIRST
        self._by_samples = by_samples
        self._sums = [{b: Buffer(f"{MIX}.{i}", b) for b in world.trainable} for i in range(self._graph.lead_max + 1)]
        self._update = apply_gradient(world)
        rounds = range(self._graph.num_rounds)
        self._rows = [{me: weights.keep(me, clock), **weights.row(me, clock)} for clock in rounds]
        self._sources = {source for row in self._rows for source in row}
        self.gathered: dict[int, Gathering] = {}
        """What has come of each clock that is not mixed yet."""
        self.is_mixing = False
        """The step is finished here, and its neighbours' parameters are awaited."""
        self.samples = 0.0
        """Those of the step that is finished."""

    def on_started(self, event: Started) -> Actions:
        return [Compute(0)] if self._step_first else [*self._offer(0, 1.0), Compute(0)]

    def _offer(self, clock: int, samples: float) -> Actions:
        """Put the own parameters into the sum and send them to all targets of this clock."""
        actions: Actions = []
        targets = self._graph.targets(self.me, clock)
        gathering = self.gathered.get(clock) or self._begin(clock)
        for bucket in self.world.trainable:
            body = self.world.params[bucket]
            actions.append(gathering.add(self.me, bucket, body, samples))
            actions += [Send(to, MIX, clock, bucket, body, samples) for to in targets]
        return actions

    def _begin(self, clock: int) -> Gathering:
        row = self._rows[clock % len(self._rows)]
        sums = self._sums[clock % len(self._sums)]
        self.gathered[clock] = gathering = Gathering(sums, len(row), None if self._by_samples else row)
        return gathering

    def on_step_finished(self, event: StepFinished) -> Actions:
        self.step = event.step + 1
        self.is_mixing = True
        self.samples = event.samples
        actions: Actions = []
        if self._step_first:
            actions = [*(self._update if event.samples else ()), *self._offer(event.step, event.samples)]
        return actions + self._mix_if_complete()

    def on_received(self, event: Received) -> Actions:
        if event.kind != MIX or event.body is None or event.source not in self._sources:
            raise self.unexpected(event)
        gathering = self.gathered.get(event.clock) or self._begin(event.clock)
        actions: Actions = [gathering.add(event.source, event.bucket, event.body, event.weight)]
        if self.is_mixing and not gathering.missing:
            actions += self._mix_if_complete()
        return actions

    def _mix_if_complete(self) -> Actions:
        clock = self.step - 1
        gathering = self.gathered[clock]
        if gathering.missing:
            return []
        self.is_mixing = False
        del self.gathered[clock]
        weight = gathering.weight / len(self.world.trainable)
        actions: Actions = []
        for bucket, total in self._sums[clock % len(self._sums)].items():
            if not self._by_samples:
                actions.append(copy(self.world.params[bucket], total))
            elif weight:
                actions.append(Combine(self.world.params[bucket], 0.0, total, 1.0 / weight))
        if self._step_first:
            return [*actions, Compute(self.step)]
        if self.samples:
            actions += self._update
        return [*actions, *self._offer(self.step, 1.0), Compute(self.step)]

    def waiting_for(self) -> str:
        if not self.is_mixing:
            return super().waiting_for()
        clock = self.step - 1
        sources = set(self._rows[clock % len(self._rows)])
        arrived = self.gathered[clock].arrived
        late = {source for bucket in self.world.trainable for source in sources.difference(arrived.get(bucket, ()))}
        return f"the parameters of step {clock} from worker {', '.join(map(str, sorted(late)))}"
