"""Everybody talks to place 0."""

from dataclasses import dataclass

from weft.core.graph import Graph
from weft.topologies.topology import Topology


@dataclass(frozen=True)
class Star(Topology):
    """Place 0 is the hub: two hops across, and all traffic passes through it. Fits any number of places."""

    def build(self, num_places: int) -> Graph:
        return Graph.undirected(num_places, ((0, place) for place in range(1, num_places)))
