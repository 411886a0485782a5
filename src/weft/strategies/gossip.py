"""Decentralized parallel SGD: workers average parameters with their neighbours only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from weft.core.actions import Combine, Compute, Send, add, copy
from weft.core.errors import ConfigError
from weft.core.events import Data, MembersChanged, Received, Returned, Started, StepFinished
from weft.core.graph import Graph
from weft.core.invariants import Codecs, Invariant, holds
from weft.core.names import Buffer, Carries, NodeId, Result, Role, Slot
from weft.core.peer import Actions, Peer
from weft.core.strategy import Entry, Strategy
from weft.core.world import World
from weft.strategies.parts.example_topology import example_topology
from weft.strategies.parts.local_step import apply_gradient
from weft.strategies.parts.neighbour_sum import NeighbourSum
from weft.strategies.parts.rounds import CROSSING, Rounds, RoundsPeer, again
from weft.topologies import Exponential, Topology
from weft.topologies.weights import AUTO, Mixing, mixing

MIX = "mix"
OVERLAP = "overlap"
STEP_FIRST = "step_first"


@dataclass(frozen=True)
class Gossip(Strategy):
    """D-PSGD (Lian et al., NIPS 2017, algorithm 1).

    order='overlap': w_i = Σ_j W_ij w_j - η g_i; parameters travel while the gradient is computed. What comes of mixing
    is added to w_i as a change, so that what a script writes to it meanwhile stays.
    order='step_first': w_i = Σ_j W_ij (w_j - η g_j). W is doubly stochastic, so the mean of all
    replicas moves only by the mean gradient. On the complete graph step_first weighs by samples,
    which makes it equal `allreduce` (for momentum while each worker's share of the samples stays the
    same); elsewhere weighing would bias the mean, so W stands alone.
    Only trained buckets are mixed: BatchNorm's means stay the worker's own.

    When a worker leaves, its neighbours finish the rounds under way without it (its weight goes to their own
    parameters), then all go over to a graph of those who are left. So the mean moves by what left with it, and no more.
    A newcomer takes over the parameters of the lowest other worker, and mixes from the next round on.

    Assumes: channels are FIFO; a source is at most `graph.lead_max` steps ahead of its target.
    """

    entry = Entry(
        "gossip",
        "D-PSGD (Lian et al. 2017)",
        "parameters are averaged with neighbours only",
    )

    topology: Topology = field(default_factory=Exponential)
    weights: str = "auto"
    order: str = OVERLAP

    @property
    def result(self) -> Result:
        return Result.MEAN

    @property
    def welcomes(self) -> bool:
        return True

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
        return {MIX: Carries.STATE, **CROSSING}

    def invariants(self, world: World) -> tuple[Invariant, ...]:
        """By samples, where all hear all, parameters are not conserved but equal."""
        assert world.graph is not None
        kept = holds("conservation.ground_is_kept"), holds("lineage.newcomers_are_copies", Codecs.ANY)
        if self._weighs_by_samples(world):
            return kept
        mixes = (
            holds("mixing.moves_by_what_left", is_applied_first=self.order == STEP_FIRST),
            holds("mixing.rounds_are_balanced"),
        )
        return (*kept, *mixes, holds("mixing.pairs_take_alike")) if world.graph.is_undirected else (*kept, *mixes)

    @classmethod
    def example_parameters(cls, rng: Random) -> Mapping[str, object]:
        return {"topology": example_topology(rng), "order": rng.choice((OVERLAP, STEP_FIRST))}

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        by_samples = self._weighs_by_samples(world)
        return GossipPeer(self.topology, self.weights, me, world, rng, order=self.order, by_samples=by_samples)

    def _weighs_by_samples(self, world: World) -> bool:
        assert world.graph is not None
        is_complete = world.graph.edges_per_step == world.num_workers * (world.num_workers - 1)
        return self.order == STEP_FIRST and is_complete


class GossipPeer(RoundsPeer):
    """Adds up weighted parameters, one sum for each step that may be under way."""

    def __init__(
        self,
        topology: Topology,
        weights: str,
        me: NodeId,
        world: World,
        rng: Random,
        *,
        order: str,
        by_samples: bool = False,
    ) -> None:
        super().__init__(me, world, rng)
        assert world.graph is not None
        self._weights = weights
        self._step_first = order == STEP_FIRST
        self._by_samples = by_samples
        self._sums = [{b: Buffer(f"{MIX}.{i}", b) for b in world.trainable} for i in range(world.graph.lead_max + 1)]
        self._update = apply_gradient(world)
        self._rows: dict[tuple[int, int], dict[NodeId, float]] = {}
        self.rounds = Rounds(me, world, topology)
        self.gathered: dict[int, NeighbourSum] = {}
        """What has come of each round that is not mixed yet."""
        self.is_mixing = False
        """The step is finished here, and its neighbours' parameters are awaited."""
        self.samples = 0.0
        """Those of the step that is finished."""

    def on_started(self, event: Started) -> Actions:
        self.rounds.is_due = not self._step_first
        return [*self._offer_if_due(), Compute(0)]

    def take_over(self, handed: Data) -> Actions:
        """Where others have offered the round of this step already, it goes through that one alone."""
        begin = super().take_over(handed)
        self.rounds.is_due = not self._step_first
        return [*self._offer_if_due(), *begin]

    def _offer_if_due(self) -> Actions:
        """Put the own parameters into the sum and send them to all targets of the round."""
        if not self.rounds.begin():
            return []
        actions: Actions = []
        clock = self.rounds.next - 1
        samples = self.samples if self._step_first else 1.0
        targets = self.rounds.targets(clock)
        mixed = self._mixed(clock)
        for bucket in self.world.trainable:
            body = self.world.params[bucket]
            actions.append(mixed.add(self.me, bucket, body, samples))
            actions += [Send(to, MIX, clock, bucket, body, samples) for to in targets]
        return actions

    def _mixed(self, clock: int) -> NeighbourSum:
        """That of a round; what came over a graph that never held for it came from the departed, and is forgotten."""
        mixed = self.gathered.get(clock)
        view = self.rounds.view_of(clock)
        if mixed is None or mixed.view != view:
            sums, is_change = self._sums[clock % len(self._sums)], not self._step_first
            mixed = NeighbourSum(self.me, self.world, view, sums, self._row(view, clock), self._by_samples, is_change)
            mixed.forget(self.rounds.departed)
            self.gathered[clock] = mixed
        return mixed

    def _row(self, view: int, clock: int) -> dict[NodeId, float]:
        """The mixing weights of the own and all sources' parameters."""
        live = self.rounds.graph_of(clock)
        key = view, clock % live.graph.num_rounds
        if key not in self._rows:
            place, weights = live.place(self.me), mixing_of(live.graph, self._weights)
            others = weights.row(place, clock)
            self._rows[key] = {self.me: weights.keep(place, clock)}
            self._rows[key] |= dict(zip(live.named(tuple(others)), others.values(), strict=True))
        return self._rows[key]

    def on_step_finished(self, event: StepFinished) -> Actions:
        self.step = event.step + 1
        self.is_mixing = True
        self.samples = event.samples
        actions: Actions = []
        if self._step_first:
            self.rounds.is_due = True
            actions = [*(self._update if event.samples else ()), *self._offer_if_due()]
        return actions + self._mix_if_complete()

    def on_received(self, event: Received) -> Actions:
        if event.kind in CROSSING:
            return [*self.rounds.on_received(event), *self._offer_if_due(), *self._mix_if_complete()]
        if event.kind != MIX or event.body is None:
            raise self.unexpected(event)
        mixed = self._mixed(event.clock)
        if not mixed.expects(event.source):
            raise self.unexpected(event)
        actions: Actions = [mixed.add(event.source, event.bucket, event.body, event.weight)]
        if self.is_mixing and not mixed.missing:
            actions += self._mix_if_complete()
        return actions

    def on_members_changed(self, event: MembersChanged) -> Actions:
        actions = self.rounds.on_members_changed(event.view, self.workers)
        for mixed in self.gathered.values():
            actions += mixed.forget(self.rounds.departed)
        return [*actions, *self._offer_if_due(), *self._mix_if_complete()]

    def on_returned(self, event: Returned) -> Actions:
        """Parameters that did not arrive before a change of members are those of their round still."""
        if event.kind == MIX and event.target in self.members:
            return [again(event)]
        return super().on_returned(event)

    def _mix_if_complete(self) -> Actions:
        clock = self.step - 1
        if not self.is_mixing or self.rounds.next < self.step or self.gathered[clock].missing:
            return []
        self.is_mixing = False
        mixed = self.gathered.pop(clock)
        actions: Actions = []
        for bucket, total in self._sums[clock % len(self._sums)].items():
            if not self._step_first:  # the script has run since they were offered, and may have written to them
                actions.append(add(self.world.params[bucket], total))
            elif not self._by_samples:
                actions.append(copy(self.world.params[bucket], total))
            elif mixed.weight[bucket]:
                actions.append(Combine(self.world.params[bucket], 0.0, total, 1.0 / mixed.weight[bucket]))
        actions += self.rounds.end()
        if not self._step_first:
            if self.samples:
                actions += self._update
            self.rounds.is_due = True
            actions += self._offer_if_due()
        return [*actions, Compute(self.step)]

    def waiting_for(self) -> str:
        if not self.is_mixing:
            return super().waiting_for()
        if self.rounds.is_due:
            return self.rounds.waiting_for()
        late = ", ".join(map(str, self.gathered[self.step - 1].late()))
        return f"the parameters of step {self.step - 1} from worker {late}"


def mixing_of(graph: Graph, weights: str) -> Mixing:
    """The weights that were asked for, or others where they would not keep the mean of a graph with closed holes."""
    try:
        return mixing(graph, weights)
    except ConfigError:
        return mixing(graph, AUTO)
