"""FAST's own method: workers exchange gradients with their neighbours and never forward them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from weft.core.actions import Apply, Combine, Compute, Note, Send, rescale
from weft.core.errors import ConfigError
from weft.core.events import EpochFinished, Received, StepFinished
from weft.core.graph import Graph
from weft.core.names import Buffer, Carries, NodeId, Result, Role, Slot
from weft.core.peer import Actions, Peer
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.strategies.election import BEST, SCORE, Election
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

    Assumes: channels are FIFO; with wait='all' a source is at most `graph.lead_max` steps ahead.
    """

    topology: Topology = field(default_factory=Torus)
    wait: str = "all"
    scale: str = "mean"
    elect: int | None = 1
    score: str = "loss"

    @property
    def result(self) -> Result:
        return Result.MEAN

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
        if self.wait == "any":
            return ()
        assert world.graph is not None
        return tuple(Slot(f"{SUM}.{i}") for i in range(world.graph.lead_max + 1))

    def kinds(self) -> Mapping[str, Carries]:
        return {NEWS: Carries.GRADIENT, SCORE: Carries.NOTHING, BEST: Carries.STATE}

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        return (WaitAll if self.wait == "all" else WaitAny)(self, me, world, rng)


class NeighboursPeer(Peer):
    """What both ways of waiting share: sending the news and taking part in elections."""

    def __init__(self, recipe: Neighbours, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(me, world, rng)
        assert world.graph is not None
        self._graph = world.graph
        self._is_sum = recipe.scale == "sum"
        self.election = Election(me, world, recipe.elect, recipe.score)

    @property
    def holds_user(self) -> bool:
        return self.election.is_open or super().holds_user

    def tell(self, event: StepFinished) -> Actions:
        """Send the own gradient of this step to all neighbours."""
        self.step = event.step + 1
        self.election.remember(event.loss)
        return [
            Send(target, NEWS, event.step, b, self.world.gradient[b], event.samples)
            for b in self.world.trainable
            for target in self._graph.targets(self.me, event.step)
        ]

    def on_epoch_finished(self, event: EpochFinished) -> Actions:
        return self.election.on_epoch_finished(event, self.step)

    def on_received(self, event: Received) -> Actions:
        if event.kind in (SCORE, BEST):
            return self.election.on_received(event, self.step)
        if event.kind != NEWS or event.body is None:
            raise self.unexpected(event)
        return self.on_news(event, event.body)

    def on_news(self, event: Received, body: Buffer) -> Actions:
        raise NotImplementedError

    def waiting_for(self) -> str:
        return self.election.waiting_for() or super().waiting_for()


class WaitAll(NeighboursPeer):
    """Adds up the weighted gradients of a step; applies their mean when all are in."""

    def __init__(self, recipe: Neighbours, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(recipe, me, world, rng)
        self._num_sums = self._graph.lead_max + 1
        self.arrived: dict[int, dict[int, list[float]]] = {}
        """The samples of the gradients in the sums, by clock and bucket."""
        self.waiting = False

    def on_step_finished(self, event: StepFinished) -> Actions:
        actions = self.tell(event)
        for b in self.world.trainable:
            actions.append(self._add(event.step, b, self.world.gradient[b], event.samples))
        self.waiting = True
        return actions + self._apply_if_complete()

    def on_news(self, event: Received, body: Buffer) -> Actions:
        actions: Actions = [self._add(event.clock, event.bucket, body, event.weight)]
        return actions + self._apply_if_complete() if self.waiting else actions

    def _add(self, clock: int, bucket: int, body: Buffer, samples: float) -> Combine:
        arrived = self.arrived.setdefault(clock, {}).setdefault(bucket, [])
        keep = 1.0 if arrived else 0.0
        arrived.append(samples)
        return Combine(Buffer(f"{SUM}.{clock % self._num_sums}", bucket), keep, body, samples)

    def _apply_if_complete(self) -> Actions:
        clock = self.step - 1
        arrived = self.arrived[clock]
        expected = 1 + len(self._graph.sources(self.me, clock))
        if any(len(arrived.get(b, ())) < expected for b in self.world.trainable):
            return []
        self.waiting = False
        del self.arrived[clock]
        sums = [(b, Buffer(f"{SUM}.{clock % self._num_sums}", b), sum(arrived[b])) for b in self.world.trainable]
        scale = float(expected) if self._is_sum else 1.0
        actions: Actions = [rescale(total, 1.0 / samples) for _, total, samples in sums if samples]
        actions += [Apply(total, self.world.params[b], scale=scale) for b, total, samples in sums if samples]
        return [*actions, Compute(self.step)]

    def waiting_for(self) -> str:
        if self.waiting:
            sources = ", ".join(map(str, self._graph.sources(self.me, self.step - 1)))
            return f"the gradients of step {self.step - 1} from its neighbours (workers {sources})"
        return super().waiting_for()


class WaitAny(NeighboursPeer):
    """Applies every gradient when it comes; never waits."""

    def __init__(self, recipe: Neighbours, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(recipe, me, world, rng)
        rounds = range(self._graph.num_rounds)
        self._num_gradients = 1 + sum(len(self._graph.sources(me, clock)) for clock in rounds) / len(rounds)
        """The own gradient and those that come for each step, as a mean over the rounds."""
        self.samples: dict[NodeId, float] = {}
        """The samples of the latest gradient of each worker heard of."""

    def on_step_finished(self, event: StepFinished) -> Actions:
        actions = self.tell(event)
        scale = self._scale(self.me, event.samples)
        actions += [Apply(self.world.gradient[b], self.world.params[b], scale=scale) for b in self.world.trainable]
        return [*actions, Compute(self.step)]

    def on_news(self, event: Received, body: Buffer) -> Actions:
        scale = self._scale(event.source, event.weight)
        return [
            Note("staleness", max(0, self.step - event.clock)),
            Apply(body, self.world.params[event.bucket], scale=scale),
        ]

    def _scale(self, source: NodeId, samples: float) -> float:
        """The sender's share of the samples of a step, by the latest that each neighbour sent."""
        self.samples[source] = samples
        if self._is_sum or not samples:
            return 1.0 if samples else 0.0
        mean = sum(self.samples.values()) / len(self.samples)
        return samples / (mean * self._num_gradients) if mean else 0.0
