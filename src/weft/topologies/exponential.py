"""Everybody sends 1, 2, 4, 8, ... places ahead."""

from dataclasses import dataclass

from weft.core.graph import Graph
from weft.topologies.topology import Topology


@dataclass(frozen=True)
class Exponential(Topology):
    """Directed exponential graph (Assran et al. 2019, section 3; Ying et al. 2021).

    Place i sends to i + 2^k for every k below log2 N, rounded up. one_peer=True sends to one of
    them in each round, in turn; after all rounds of a power of two the mean is exact.
    Fits any number of places.
    """

    one_peer: bool = False

    def build(self, num_places: int) -> Graph:
        offsets = [1 << k for k in range((num_places - 1).bit_length())]
        if self.one_peer:
            return Graph.circulant(num_places, *((offset,) for offset in offsets))
        return Graph.circulant(num_places, offsets)
