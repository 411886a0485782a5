"""FAST's own method: workers exchange gradients with their neighbours and never forward them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from weft.core.actions import Apply, Combine, Compute, Note, Send, rescale
from weft.core.errors import ConfigError
from weft.core.events import Data, EpochFinished, MembersChanged, Received, Returned, StepFinished
from weft.core.graph import Graph
from weft.core.invariants import Codecs, Invariant, holds
from weft.core.names import Buffer, Carries, NodeId, Result, Role, Slot
from weft.core.peer import Actions, Peer, number
from weft.core.strategy import Entry, Strategy
from weft.core.world import World
from weft.strategies.parts.election import BEST_SLOT, ELECTION, Election
from weft.strategies.parts.example_topology import example_topology
from weft.strategies.parts.live_graph import LiveGraph, Nodes, first_live_graph, graph_of_living
from weft.strategies.parts.rounds import CROSSING, Rounds, RoundsPeer, again
from weft.topologies import Topology, Torus

NEWS = "gradient"
SUM = "neighbours.sum"


@dataclass(frozen=True)
class Neighbours(Strategy):
    """FAST (Viviani et al., "Deep Learning at Scale", 2019, section III).

    After each batch a worker sends its gradient to its neighbours and applies its own and every
    received one through its own optimizer. wait='all': it waits for the neighbours' gradients of the
    same step and applies them together; wait='any': each is applied when it comes, with the sender's
    learning rate. scale='mean' weighs by samples; 'sum' multiplies that by the number of gradients (wait='all')
    or applies each in full (wait='any').
    Every `elect` epochs all restart from the replica with the best `score` (the epoch's mean training
    loss unless the script reports a number of that name).
    Gradients of workers that have left are not waited for, and the best of those who stay is elected.
    A newcomer takes over the parameters of the lowest other worker, and stands in elections once it has made a step.
    (With a codec it hears once more what that worker's messages had left out until then.)

    Assumes: channels are FIFO; with wait='all' a source is at most `graph.lead_max` steps ahead.
    """

    entry = Entry(
        "neighbours",
        "FAST (Viviani et al. 2019)",
        "gradients go to neighbours only; all restart from the best replica every `elect` epochs",
    )

    topology: Topology = field(default_factory=Torus)
    wait: str = "all"
    scale: str = "mean"
    elect: int | None = 1
    score: str = "loss"

    @property
    def result(self) -> Result:
        return Result.MEAN

    @property
    def welcomes(self) -> bool:
        return True

    @property
    def scored(self) -> bool:
        return self.elect is not None

    def __post_init__(self) -> None:
        for name, known in (("wait", ("all", "any")), ("scale", ("mean", "sum"))):
            if getattr(self, name) not in known:
                raise ConfigError(
                    f"{name} is '{getattr(self, name)}', but it is '{known[0]}' or '{known[1]}'.\n"
                    f"  Use 'neighbours({name}={known[0]})'."
                )
        if self.elect is not None and self.elect < 1:
            raise ConfigError(
                f"elect is {self.elect}, but it counts epochs.\n"
                "  Use 'neighbours(elect=1)' to elect after every epoch, or 'neighbours(elect=none)' never to elect."
            )

    def graph(self, num_workers: int) -> Graph:
        return self.topology.graph(num_workers)

    def slots(self, role: Role, world: World) -> tuple[Slot, ...]:
        best = () if self.elect is None else (Slot(BEST_SLOT),)
        if self.wait == "any":
            return best
        assert world.graph is not None
        return (*(Slot(f"{SUM}.{i}") for i in range(world.graph.lead_max + 1)), *best)

    def kinds(self) -> Mapping[str, Carries]:
        return {NEWS: Carries.GRADIENT, **ELECTION, **CROSSING}

    def invariants(self, world: World) -> tuple[Invariant, ...]:
        """All restart from the replica that is elected, whatever the others have applied."""
        copies = holds("lineage.newcomers_are_copies", Codecs.ANY)
        return (copies, holds("once.workers_apply_once", Codecs.EXACT)) if self.elect is None else (copies,)

    @classmethod
    def example_parameters(cls, rng: Random) -> Mapping[str, object]:
        return {
            "topology": example_topology(rng),
            "wait": rng.choice(("all", "any")),
            "elect": rng.choice((None, 1, 2)),
        }

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        return (WaitAll if self.wait == "all" else WaitAny)(self, me, world, rng)


class NeighboursPeer(Peer):
    """What both ways of waiting share: sending the news and taking part in elections."""

    def __init__(self, recipe: Neighbours, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(me, world, rng)
        self._is_sum = recipe.scale == "sum"
        self.election = Election(me, world, recipe.elect, recipe.score)

    @property
    def holds_user(self) -> bool:
        return self.election.is_open or super().holds_user

    def tell(self, clock: int, samples: float, targets: Nodes) -> Actions:
        """Send the own gradient of a step to all neighbours."""
        return [
            Send(target, NEWS, clock, b, self.world.gradient[b], samples)
            for b in self.world.trainable
            for target in targets
        ]

    def on_epoch_finished(self, event: EpochFinished) -> Actions:
        return self.election.on_epoch_finished(event, self.step)

    def on_received(self, event: Received) -> Actions:
        if event.kind in ELECTION:
            return self.election.on_received(event, self.step)
        if event.kind != NEWS or event.body is None:
            raise self.unexpected(event)
        return self.on_news(event, event.body)

    def on_news(self, event: Received, body: Buffer) -> Actions:
        raise NotImplementedError

    def on_members_changed(self, event: MembersChanged) -> Actions:
        return self.election.on_members_changed(self.workers, self.step)

    def on_joined(self, event: MembersChanged, newcomers: tuple[NodeId, ...]) -> Actions:
        self.election.on_joined(self.workers, newcomers, self.step)
        return super().on_joined(event, newcomers)

    def hand_over(self) -> Data:
        return {**super().hand_over(), "closed": self.election.closed}

    def take_over(self, handed: Data) -> Actions:
        actions = super().take_over(handed)
        self.election.take_over(number(handed, "closed"), self.step)
        return actions

    def on_returned(self, event: Returned) -> Actions:
        """What a change of members overtook is sent again to those who stay."""
        if event.kind not in CROSSING and event.target in self.members:
            return [again(event)]
        return super().on_returned(event)

    def waiting_for(self) -> str:
        return self.election.waiting_for(self.step) or super().waiting_for()


class WaitAll(RoundsPeer, NeighboursPeer):
    """Adds up the weighted gradients of a step; applies their mean when all are in."""

    def __init__(self, recipe: Neighbours, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(recipe, me, world, rng)
        assert world.graph is not None
        self._num_sums = world.graph.lead_max + 1
        self.rounds = Rounds(me, world, recipe.topology)
        self.arrived: dict[int, dict[int, dict[NodeId, float]]] = {}
        """The samples of the gradients in the sums, by clock, bucket and worker."""
        self.waiting = False
        self.samples = 0.0
        """Those of the step that is finished."""

    def on_step_finished(self, event: StepFinished) -> Actions:
        self.step = event.step + 1
        self.election.remember(event.loss)
        self.waiting = self.rounds.is_due = True
        self.samples = event.samples
        return [*self._tell_if_due(), *self._apply_if_complete()]

    def _tell_if_due(self) -> Actions:
        if not self.rounds.begin():
            return []
        clock = self.rounds.next - 1
        actions = self.tell(clock, self.samples, self.rounds.targets(clock))
        for b in self.world.trainable:
            actions.append(self._add(clock, b, self.world.gradient[b], self.me, self.samples))
        return actions

    def on_received(self, event: Received) -> Actions:
        if event.kind in CROSSING:
            return [*self.rounds.on_received(event), *self._tell_if_due(), *self._apply_if_complete()]
        return super().on_received(event)

    def on_news(self, event: Received, body: Buffer) -> Actions:
        actions: Actions = [self._add(event.clock, event.bucket, body, event.source, event.weight)]
        if self.waiting and not self.rounds.is_due:
            actions += self._apply_if_complete()
        return actions

    def on_members_changed(self, event: MembersChanged) -> Actions:
        crossing = self.rounds.on_members_changed(event.view, self.workers)
        election = super().on_members_changed(event)
        return [*crossing, *self._tell_if_due(), *self._apply_if_complete(), *election]

    def on_joined(self, event: MembersChanged, newcomers: tuple[NodeId, ...]) -> Actions:
        """At rest all gradients of those who stay were applied: any that wait are of one who was ahead and left."""
        self.arrived.clear()
        return super().on_joined(event, newcomers)

    def _add(self, clock: int, bucket: int, body: Buffer, source: NodeId, samples: float) -> Combine:
        arrived = self.arrived.setdefault(clock, {}).setdefault(bucket, {})
        keep = 1.0 if arrived else 0.0
        arrived[source] = samples
        return Combine(Buffer(f"{SUM}.{clock % self._num_sums}", bucket), keep, body, samples)

    def _apply_if_complete(self) -> Actions:
        clock = self.step - 1
        if not self.waiting or self.rounds.is_due:
            return []
        arrived, num_sources = self.arrived[clock], len(self.rounds.sources(clock))
        for senders in arrived.values():
            if len(senders) <= num_sources:  # the own gradient is one of them
                return []
        if self.rounds.departed and self._late():
            return []
        self.waiting = False
        del self.arrived[clock]
        sums = [(b, Buffer(f"{SUM}.{clock % self._num_sums}", b), arrived[b]) for b in self.world.trainable]
        sums = [(b, total, samples) for b, total, samples in sums if sum(samples.values())]
        actions: Actions = [rescale(total, 1.0 / sum(samples.values())) for _, total, samples in sums]
        for b, total, samples in sums:
            actions.append(Apply(total, self.world.params[b], scale=float(len(samples)) if self._is_sum else 1.0))
        return [*actions, *self.rounds.end(), Compute(self.step)]

    def _late(self) -> list[NodeId]:
        """Whose gradients of the round under way are missing."""
        arrived, buckets = self.arrived[self.step - 1], self.world.trainable
        return [node for node in self.rounds.sources(self.step - 1) if any(node not in arrived[b] for b in buckets)]

    def waiting_for(self) -> str:
        if not self.waiting:
            return super().waiting_for()
        if self.rounds.is_due:
            return self.rounds.waiting_for()
        return f"the gradients of step {self.step - 1} from worker {', '.join(map(str, self._late()))}"


class WaitAny(NeighboursPeer):
    """Applies every gradient when it comes; never waits."""

    def __init__(self, recipe: Neighbours, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(recipe, me, world, rng)
        assert world.graph is not None
        self._topology = recipe.topology
        self._first = self._live_graph = first_live_graph(world.graph, world.workers)
        self._num_gradients = num_gradients(self._live_graph, me)
        self.samples: dict[NodeId, float] = {}
        """The samples of the latest gradient of each worker heard of."""

    def on_step_finished(self, event: StepFinished) -> Actions:
        self.step = event.step + 1
        self.election.remember(event.loss)
        actions = self.tell(event.step, event.samples, self._live_graph.targets(self.me, event.step))
        scale = self._scale(self.me, event.samples)
        actions += [Apply(self.world.gradient[b], self.world.params[b], scale=scale) for b in self.world.trainable]
        return [*actions, Compute(self.step)]

    def on_news(self, event: Received, body: Buffer) -> Actions:
        scale = self._scale(event.source, event.weight)
        return [
            Note("staleness", max(0, self.step - event.clock)),
            Apply(body, self.world.params[event.bucket], scale=scale),
        ]

    def on_members_changed(self, event: MembersChanged) -> Actions:
        self._find_neighbours()
        self.samples = {worker: samples for worker, samples in self.samples.items() if worker in self.workers}
        return super().on_members_changed(event)

    def on_joined(self, event: MembersChanged, newcomers: tuple[NodeId, ...]) -> Actions:
        self._find_neighbours()
        return super().on_joined(event, newcomers)

    def _find_neighbours(self) -> None:
        self._live_graph = graph_of_living(self._first, self.workers, self._topology)
        self._num_gradients = num_gradients(self._live_graph, self.me)

    def _scale(self, source: NodeId, samples: float) -> float:
        """The sender's share of the samples of a step, by the latest that each neighbour sent."""
        self.samples[source] = samples
        if self._is_sum or not samples:
            return 1.0 if samples else 0.0
        mean = sum(self.samples.values()) / len(self.samples)
        return samples / (mean * self._num_gradients) if mean else 0.0


def num_gradients(graph: LiveGraph, me: NodeId) -> float:
    """The own gradient and those that come for each step, as a mean over the rounds."""
    rounds = range(graph.graph.num_rounds)
    return 1 + sum(len(graph.sources(me, clock)) for clock in rounds) / len(rounds)
