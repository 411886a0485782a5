"""Asynchronous decentralized SGD: pairwise averaging that no step ever waits for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from weft.core.actions import Combine, Compute, Note, Send, add
from weft.core.events import MembersChanged, Received, Returned, StepFinished
from weft.core.graph import Graph
from weft.core.invariants import Codecs, Invariant, holds
from weft.core.names import PARAMS, Buffer, Carries, NodeId, Result, Role, Slot
from weft.core.peer import Actions, Peer
from weft.core.strategy import Entry, Strategy
from weft.core.world import World
from weft.strategies.parts.example_topology import example_topology
from weft.strategies.parts.live_graph import first_live_graph, graph_of_living
from weft.strategies.parts.local_step import apply_gradient
from weft.strategies.parts.reductions import check_period
from weft.topologies import Exponential, Topology

OFFER = "offer"
ANSWER = "answer"
DELTA = "async_gossip.delta"


@dataclass(frozen=True)
class AsyncGossip(Strategy):
    """AD-PSGD (Lian et al., ICML 2018), in a form that conserves the total under any delay.

    A worker offers w to one random neighbour; the passive side computes d = (w_offer - w) / 2, adds d
    and answers d; the active side subtracts d from whatever it holds by then. At most one own offer is
    open; a step never waits. With `period` above 1 only every so-manieth step is followed by an offer, which leaves
    more of a core, or of a link, to training.

    A change of members ends every offer that is open: either it was not received, and changed nothing, or its
    answer comes back to the passive side, which takes d back. Those who stay then hold what they held before.
    A newcomer takes over the parameters and the step of the lowest other worker, when no offer is open.

    Assumes: every Send ends in one Received there or one Returned here.
    """

    entry = Entry(
        "async_gossip",
        "AD-PSGD (Lian et al. 2018)",
        "pairwise averaging that no step waits for",
    )

    topology: Topology = field(default_factory=Exponential)
    period: int = 1

    def __post_init__(self) -> None:
        check_period("async_gossip", self.period)

    @property
    def keeps_step(self) -> bool:
        return False

    @property
    def welcomes(self) -> bool:
        return True

    @property
    def result(self) -> Result:
        return Result.MEAN

    def graph(self, num_workers: int) -> Graph:
        return self.topology.graph(num_workers)

    def slots(self, role: Role, world: World) -> tuple[Slot, ...]:
        return (Slot(DELTA),)

    def kinds(self) -> Mapping[str, Carries]:
        return {OFFER: Carries.STATE, ANSWER: Carries.EXACT}

    def invariants(self, world: World) -> tuple[Invariant, ...]:
        return (
            holds("conservation.ground_is_kept"),
            holds("lineage.newcomers_are_copies", Codecs.ANY),
            holds("conservation.total_is_conserved", slot=PARAMS, in_flight={ANSWER: -1.0}),
        )

    @classmethod
    def example_parameters(cls, rng: Random) -> Mapping[str, object]:
        return {"topology": example_topology(rng)}

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        return AsyncGossipPeer(self.topology, self.period, me, world, rng)


class AsyncGossipPeer(Peer):
    """Keeps one offer open at a time and answers those of others."""

    def __init__(self, topology: Topology, period: int, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(me, world, rng)
        assert world.graph is not None
        self._topology = topology
        self._period = period
        self._first = first_live_graph(world.graph, world.workers)
        self._neighbours = self._first.everyone(me)
        self.unanswered = 0
        """Buckets of the own offer that are still open."""

    def on_step_finished(self, event: StepFinished) -> Actions:
        self.step = event.step + 1
        actions = apply_gradient(self.world, event.samples)
        if self._neighbours and not self.unanswered and self.step % self._period == 0:
            partner = self.rng.choice(self._neighbours)
            self.unanswered = len(self.world.buckets)
            actions += [
                Send(partner, OFFER, self.step, bucket, self.world.params[bucket]) for bucket in range(self.unanswered)
            ]
        return [*actions, Compute(self.step)]

    def on_received(self, event: Received) -> Actions:
        mine, delta = self.world.params[event.bucket], Buffer(DELTA, event.bucket)
        if event.body is None:
            raise self.unexpected(event)
        if event.kind == OFFER:
            return [
                Note("staleness", abs(self.step - event.clock)),
                Combine(delta, 0.0, event.body, 0.5),
                add(delta, mine, -0.5),
                add(mine, delta),
                Send(event.source, ANSWER, event.clock, event.bucket, delta),
            ]
        if event.kind == ANSWER and self.unanswered:
            self.unanswered -= 1
            return [add(mine, event.body, -1.0)]
        raise self.unexpected(event)

    def on_members_changed(self, event: MembersChanged) -> Actions:
        self._find_neighbours()
        self.unanswered = 0
        return []

    def on_joined(self, event: MembersChanged, newcomers: tuple[NodeId, ...]) -> Actions:
        self._find_neighbours()
        return super().on_joined(event, newcomers)

    def _find_neighbours(self) -> None:
        self._neighbours = graph_of_living(self._first, self.workers, self._topology).everyone(self.me)

    def on_returned(self, event: Returned) -> Actions:
        """A lost offer changed nothing; an answer is sent again, or taken back if its offer is open no more."""
        if event.kind == OFFER:
            self.unanswered -= event.view == self.view
            return []
        if event.kind != ANSWER or event.view == self.view:
            return super().on_returned(event)
        assert event.body is not None
        return [add(self.world.params[event.bucket], event.body, -1.0)]

    def waiting_for(self) -> str:
        if self.unanswered:
            return f"the user's iteration, with an offer open ({self.unanswered} buckets)"
        return super().waiting_for()
