"""The graph of the living: who talks to whom, by node, and how it is remade when workers leave and come."""

from functools import lru_cache

from weft.core.graph import Graph
from weft.core.names import NodeId
from weft.topologies import Topology

Nodes = tuple[NodeId, ...]

NUM_GRAPHS_KEPT = 64
"""Workers of one process share the graphs of a view: each would need as much memory as all of them."""


class LiveGraph:
    """A graph whose places are taken by `nodes`, in their order."""

    def __init__(self, graph: Graph, nodes: Nodes) -> None:
        self.graph = graph
        self.nodes = nodes
        self._places = {node: place for place, node in enumerate(nodes)}
        self._named: dict[tuple[int, ...], Nodes] = {}

    def place(self, node: NodeId) -> int:
        return self._places[node]

    def targets(self, node: NodeId, clock: int = 0) -> Nodes:
        """To whom `node` sends in the round of `clock`."""
        return self.named(self.graph.targets(self._places[node], clock))

    def sources(self, node: NodeId, clock: int = 0) -> Nodes:
        """From whom `node` receives in the round of `clock`."""
        return self.named(self.graph.sources(self._places[node], clock))

    def everyone(self, node: NodeId) -> Nodes:
        """All to whom `node` sends, in any round."""
        return self.named(self.graph.everyone(self._places[node]))

    def named(self, places: tuple[int, ...]) -> Nodes:
        """Who sits there; remembered, because the same few are asked for in every round."""
        if places not in self._named:
            self._named[places] = tuple(self.nodes[place] for place in places)
        return self._named[places]


@lru_cache(maxsize=NUM_GRAPHS_KEPT)
def first_live_graph(graph: Graph, nodes: Nodes) -> LiveGraph:
    """The graph with which a run begins."""
    return LiveGraph(graph, nodes)


@lru_cache(maxsize=NUM_GRAPHS_KEPT)
def graph_of_living(first: LiveGraph, living: Nodes, topology: Topology, lead_max: int | None = None) -> LiveGraph:
    """The graph of those who live: made anew by its recipe, or else the first one, whose holes are closed.

    It follows from who lives, and not from who came and went before: a newcomer, which has not heard of those, gets
    the same graph as all others. It is connected. A recipe is not followed where its graph would let a source lead by
    more than `lead_max`, for which there is no memory; closed holes leave undirected edges, over which the lead is 1.
    """
    if living == first.nodes:
        return first
    remade = topology.remade(len(living))
    if remade is not None and (lead_max is None or remade.lead_max <= lead_max):
        return LiveGraph(remade, living)
    graph, staying = first.graph, set(living)
    for place in reversed(range(len(first.nodes))):
        if first.nodes[place] not in staying:
            graph = graph.without(place)
    return LiveGraph(graph, living)


@lru_cache(maxsize=NUM_GRAPHS_KEPT)
def graph_of_one(node: NodeId) -> LiveGraph:
    """The graph of one who talks to nobody."""
    return LiveGraph(Graph.circulant(1, ()), (node,))
