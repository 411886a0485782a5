"""Everybody talks to everybody."""

from dataclasses import dataclass

from weft.core.graph import Graph
from weft.topologies.topology import Topology


@dataclass(frozen=True)
class Complete(Topology):
    """An edge between every two places: one hop, N (N - 1) messages for each step.

    Fits any number of places. One mixing step gives the exact mean.
    """

    def build(self, num_places: int) -> Graph:
        return Graph.circulant(num_places, range(1, num_places))
