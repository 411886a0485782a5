"""Places whose numbers differ in one bit talk."""

from dataclasses import dataclass

from weft.core.errors import ConfigError
from weft.core.graph import Graph
from weft.topologies.topology import Topology


@dataclass(frozen=True)
class Hypercube(Topology):
    """log2 N neighbours, log2 N hops across; the number of places is a power of two."""

    def build(self, num_places: int) -> Graph:
        num_bits = (num_places - 1).bit_length()
        if num_places != 1 << num_bits:
            raise ConfigError(
                f"topology '{self}' needs a power of two, but there are {num_places} workers.\n"
                f"  Use {1 << num_bits - 1} or {1 << num_bits} workers, or 'exponential', "
                "which has as many neighbours and fits any number."
            )
        edges = ((place, place ^ 1 << bit) for place in range(num_places) for bit in range(num_bits))
        return Graph.undirected(num_places, edges, transitive=True)
