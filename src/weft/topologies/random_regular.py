"""Everybody talks to the same number of others, drawn by lot."""

from dataclasses import dataclass
from random import Random

from weft.core.errors import ConfigError
from weft.core.graph import Graph
from weft.topologies.complete import Complete
from weft.topologies.topology import Topology

NUM_SWAPS_PER_EDGE = 10
"""Tried swaps that make the drawn graph forget the circle it starts from."""


@dataclass(frozen=True)
class RandomRegular(Topology):
    """A connected graph in which every place has `degree` neighbours; the same seed draws the same graph.

    It starts as a circle and swaps the ends of random pairs of edges. With no more places than
    `degree`, everybody talks to everybody. An odd degree needs an even number of places.
    """

    degree: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        if self.degree < 2:
            raise ConfigError(
                f"topology '{self}' has a degree of {self.degree}, but news passes on only with 2 or more.\n"
                "  Use 'random_regular(degree=2)' for a ring in random order, or a higher degree."
            )

    def build(self, num_places: int) -> Graph:
        if num_places <= self.degree + 1:
            return Complete().build(num_places)
        if num_places * self.degree % 2:
            raise ConfigError(
                f"topology '{self}' needs an even number of places, because its degree is odd, "
                f"but there are {num_places} workers.\n"
                f"  Use degree={self.degree + 1}, or {num_places - 1} or {num_places + 1} workers."
            )
        rng = Random(self.seed)
        edges = self._circle(num_places)
        while True:
            _swap(edges, rng)
            graph = Graph.undirected(num_places, edges)
            if graph.is_connected:
                return graph

    def _circle(self, num_places: int) -> list[tuple[int, int]]:
        edges = [(i, (i + d) % num_places) for i in range(num_places) for d in range(1, self.degree // 2 + 1)]
        if self.degree % 2:
            edges += [(i, i + num_places // 2) for i in range(num_places // 2)]
        return edges


def _swap(edges: list[tuple[int, int]], rng: Random) -> None:
    """Turn random pairs of edges (a, b), (c, d) into (a, d), (c, b), unless it loops or doubles an edge.

    Only Random.random() is drawn from: it alone is promised to be the same in every Python.
    """
    present = {frozenset(edge) for edge in edges}
    for _ in range(NUM_SWAPS_PER_EDGE * len(edges)):
        i, j = int(rng.random() * len(edges)), int(rng.random() * len(edges))
        (a, b), (c, d) = edges[i], edges[j][:: 1 if rng.random() < 0.5 else -1]
        if len({a, b, c, d}) < 4 or {frozenset((a, d)), frozenset((c, b))} & present:
            continue
        present -= {frozenset((a, b)), frozenset((c, d))}
        present |= {frozenset((a, d)), frozenset((c, b))}
        edges[i], edges[j] = (a, d), (c, b)
