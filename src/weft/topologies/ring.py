"""Everybody talks to the two beside."""

from dataclasses import dataclass

from weft.core.graph import Graph
from weft.topologies.topology import Topology


@dataclass(frozen=True)
class Ring(Topology):
    """Place i and place i + 1 talk, and the last talks to the first; N / 2 hops across.

    Fits any number of places; two places have one edge.
    """

    def build(self, num_places: int) -> Graph:
        return Graph.circulant(num_places, (1, -1))
