"""Everybody talks to one parent and a few children."""

from dataclasses import dataclass

from weft.core.errors import ConfigError
from weft.core.graph import Graph
from weft.topologies.topology import Topology


@dataclass(frozen=True)
class Tree(Topology):
    """Place 0 is the root; place i's parent is (i - 1) // arity. N - 1 edges, the fewest there can be.

    Fits any number of places; arity=1 is a line.
    """

    arity: int = 2

    def __post_init__(self) -> None:
        if self.arity < 1:
            raise ConfigError(
                f"topology '{self}' has an arity of {self.arity}, but a parent has at least 1 child.\n"
                "  Use 'tree' for two children each, or 'tree(arity=1)' for a line."
            )

    def build(self, num_places: int) -> Graph:
        edges = (((place - 1) // self.arity, place) for place in range(1, num_places))
        return Graph.undirected(num_places, edges)
