"""Which graph a round goes over: all workers change to the graph of a new view before the same round."""

from weft.core.actions import Send
from weft.core.events import Data, MembersChanged, Received, Returned
from weft.core.names import Carries, NodeId
from weft.core.peer import Actions, Peer, number
from weft.core.world import World
from weft.strategies.parts.live_graph import LiveGraph, Nodes, first_live_graph, graph_of_living, graph_of_one
from weft.topologies import Topology

CLOCK = "clock"
UNTIL = "until"
READY = "ready"
GO = "go"
CROSSING = {CLOCK: Carries.NOTHING, UNTIL: Carries.NOTHING, READY: Carries.NOTHING, GO: Carries.NOTHING}
"""What workers say to each other when they change graphs."""
ALONE = -1
"""Stands for the view of a graph in which a newcomer is alone: that of all rounds before its first."""


class Rounds:
    """One worker's rounds: what it begins next, and with whom each is exchanged.

    When members change, workers may be several rounds apart. They then agree in two steps, which the first of
    the living leads: each tells the round that it begins next (`clock`), and hears the latest of all (`until`);
    rounds before that one still go over the old graph. Who has ended them says so (`ready`), and when all have,
    the new graph holds (`go`). So all who live have the same neighbours in the same round, no round of the new graph
    is under way with one of the old, and nothing is said while members stay.

    Newcomers come when all have begun the same rounds and nothing is under way (decision 0040): nobody needs to agree,
    and the graph with them holds from the next round on. So ends a crossing for which only a round is awaited that all
    have begun.

    Another change of members meanwhile begins the agreement again. Who missed a `go` that others have heard knows of
    its round all the same, having been ready for it; and if nobody who is left has heard it, nobody has begun it.
    """

    def __init__(self, me: NodeId, world: World, topology: Topology) -> None:
        assert world.graph is not None
        self._me = me
        self._topology = topology
        self._lead_max = world.graph.lead_max
        self._first = first_live_graph(world.graph, world.workers)
        self._graphs: dict[int, LiveGraph] = {world.view: self._first}
        self._workers = world.workers
        self.departed: set[NodeId] = set()
        """Who has left, and has not come back."""
        self.view = world.view
        """The latest view, whose graph may not hold yet."""
        self.is_crossing = False
        """Members changed, and their graph does not hold yet."""
        self.eras: list[tuple[int, int]] = [(0, world.view)]
        """From which round on the graph of which view is meant; later ones count before earlier ones."""
        self.until: int | None = None
        """The first round of the new graph, while it does not hold yet."""
        self.next = 0
        """The round to begin next."""
        self.is_due = False
        """What it takes is there, though perhaps not its graph."""
        self.is_under_way = False
        """The round before is not over."""
        self.is_ready = False
        self.clocks: dict[NodeId, int] = {}
        """Who leads keeps the next round of each worker."""
        self.ready: set[NodeId] = set()
        """Who leads keeps who is ready."""

    def view_of(self, clock: int) -> int:
        """The view whose graph a round goes over."""
        if len(self.eras) == 1:
            return self.eras[0][1]
        return next(view for first, view in reversed(self.eras) if first <= clock)

    def graph_of(self, clock: int) -> LiveGraph:
        return self._graphs[self.view_of(clock)]

    def targets(self, clock: int) -> Nodes:
        """To whom this worker sends in a round; those who have left are not among them."""
        return self._living(self.graph_of(clock).targets(self._me, clock))

    def sources(self, clock: int) -> Nodes:
        """From whom it still expects something in a round."""
        return self._living(self.graph_of(clock).sources(self._me, clock))

    def _living(self, nodes: Nodes) -> Nodes:
        return tuple(node for node in nodes if node not in self.departed) if self.departed else nodes

    def begin(self) -> bool:
        """Begin the round that is due, if there is one and its graph is agreed."""
        if not self.is_due or (self.is_crossing and (self.until is None or self.next >= self.until)):
            return False
        self.is_due = False
        self.is_under_way = True
        self.next += 1
        return True

    def end(self) -> Actions:
        """The round under way is over."""
        self.is_under_way = False
        return self._tell_if_ready() if self.is_crossing else []

    def on_members_changed(self, view: int, workers: Nodes) -> Actions:
        self.departed.update(node for node in self._workers if node not in workers)
        self._workers, self.view, self.until = workers, view, None
        self._graphs[view] = self._graph_of(workers)
        self.is_crossing, self.is_ready = True, False
        self.clocks, self.ready = {}, set()
        if workers[0] == self._me:
            return self._hear_clock(self._me, self.next)
        return [Send(workers[0], CLOCK, self.next, 0)]

    def _graph_of(self, workers: Nodes) -> LiveGraph:
        return graph_of_living(self._first, workers, self._topology, self._lead_max)

    def on_joined(self, view: int, workers: Nodes) -> None:
        """At rest newcomers are among the workers: the graph with them holds from the next round on.

        Of a round before that all has come that ever will, though it may not be over: nobody asks for its graph again.
        """
        self._graphs = {view: self._graph_of(workers)}
        self.eras = [(0, view)]
        self._workers, self.view = workers, view
        self.departed.difference_update(workers)
        self.is_crossing, self.is_ready, self.until = False, False, None
        self.clocks, self.ready = {}, set()

    def take_over(self, next: int, first: int, view: int, workers: Nodes) -> None:
        """This worker is a newcomer that begins with round `next`; rounds before `first` it goes through alone."""
        self._graphs = {ALONE: graph_of_one(self._me), view: self._graph_of(workers)}
        self.eras = [(0, ALONE), (first, view)]
        self._workers, self.view, self.next = workers, view, next

    def on_received(self, event: Received) -> Actions:
        """Something of the crossing; a round that is due may begin then."""
        if event.kind == CLOCK:
            return self._hear_clock(event.source, event.clock)
        if event.kind == UNTIL:
            return self._agree(event.clock)
        return self._hear_ready(event.source) if event.kind == READY else self._go()

    def _hear_clock(self, source: NodeId, clock: int) -> Actions:
        self.clocks[source] = clock
        if len(self.clocks) < len(self._workers):
            return []
        until = max(self.clocks.values())
        return [*self._to_others(UNTIL, until), *self._agree(until)]

    def _agree(self, until: int) -> Actions:
        self.until = until
        self.eras.append((until, self.view))
        return self._tell_if_ready()

    def _tell_if_ready(self) -> Actions:
        if self.is_ready or self.is_under_way or self.next != self.until:
            return []
        self.is_ready = True
        if self._workers[0] == self._me:
            return self._hear_ready(self._me)
        return [Send(self._workers[0], READY, self.next, 0)]

    def _hear_ready(self, source: NodeId) -> Actions:
        self.ready.add(source)
        if len(self.ready) < len(self._workers):
            return []
        return [*self._to_others(GO, self.next), *self._go()]

    def _go(self) -> Actions:
        self.is_crossing = False
        self.eras = self.eras[-1:]
        self._graphs = {self.view: self._graphs[self.view]}
        self.until = None
        return []

    def _to_others(self, kind: str, clock: int) -> Actions:
        return [Send(to, kind, clock, 0) for to in self._workers if to != self._me]

    def waiting_for(self) -> str:
        """What the round that is due lacks: how far the others are in the change of graphs."""
        leads = self._workers[0] == self._me
        told = self.clocks if self.until is None else self.ready
        others = ", ".join(str(worker) for worker in self._workers if worker not in told) if leads else self._workers[0]
        if self.until is None:
            return f"word from worker {others} before which round the graph of view {self.view} holds"
        return f"word from worker {others} that the rounds before {self.until}, over the old graph, are over"


class RoundsPeer(Peer):
    """A worker's peer that exchanges in rounds, one for each step: how newcomers come into them.

    A newcomer takes part from the first round that its sponsor has not begun.
    """

    rounds: Rounds

    def on_joined(self, event: MembersChanged, newcomers: tuple[NodeId, ...]) -> Actions:
        if not self._is_new:
            self.rounds.on_joined(event.view, self.workers)
        return super().on_joined(event, newcomers)

    def hand_over(self) -> Data:
        return {**super().hand_over(), "round": self.rounds.next}

    def take_over(self, handed: Data) -> Actions:
        actions = super().take_over(handed)
        self.rounds.take_over(self.step, number(handed, "round"), self.view, self.workers)
        return actions


def again(event: Returned) -> Send:
    """Send what was returned, as it was."""
    return Send(event.target, event.kind, event.clock, event.bucket, event.body, event.weight, event.data)
