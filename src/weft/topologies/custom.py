"""Edges as the user lists them."""

from collections.abc import Iterable
from dataclasses import dataclass
from operator import index
from typing import Any, Protocol, runtime_checkable

from weft.core.errors import ConfigError
from weft.core.graph import Graph
from weft.topologies.topology import Topology, named

EXAMPLE = "Use for example 'custom([(0, 1), (1, 2)])'."

Edges = tuple[tuple[int, int], ...]


@runtime_checkable
class EdgeGraph(Protocol):
    """What Weft reads of a networkx graph (networkx itself is never imported)."""

    @property
    def edges(self) -> Any: ...

    def number_of_nodes(self) -> int: ...


@dataclass(frozen=True, init=False)
class Custom(Topology):
    """Pairs of places, or a networkx graph whose nodes are the places 0 to N - 1; every edge goes both ways.

    Kept as sorted pairs, so recipes with the same edges are equal whatever they were made from.
    """

    edges: Edges
    num_places: int

    def __init__(self, edges: Iterable[tuple[int, int]] | EdgeGraph) -> None:
        num_nodes = 0
        if isinstance(edges, EdgeGraph):
            num_nodes, edges = edges.number_of_nodes(), edges.edges
        if not isinstance(edges, Iterable):
            raise ConfigError(
                f"topology 'custom' was given {edges!r}, but it takes pairs of places or a networkx graph.\n  {EXAMPLE}"
            )
        pairs = {_pair(edge) for edge in edges}
        num_places = max([num_nodes, *(b + 1 for _, b in pairs)])
        object.__setattr__(self, "edges", tuple(sorted(pairs)))
        object.__setattr__(self, "num_places", num_places)

    def build(self, num_places: int) -> Graph:
        if num_places != self.num_places:
            raise ConfigError(
                f"topology '{self}' has {self.num_places} places, but there are {num_places} workers.\n"
                f"  {self._advice(num_places)}"
            )
        return Graph.undirected(num_places, self.edges)

    def _advice(self, num_places: int) -> str:
        if num_places < self.num_places:
            return f"Use {self.num_places} workers, or leave out the edges of places {num_places} and above."
        extra = named(list(range(self.num_places, num_places)))
        return f"Use {self.num_places} workers, or add edges for {extra}." if self.edges else EXAMPLE

    def __str__(self) -> str:
        return "custom"


def _pair(edge: Any) -> tuple[int, int]:
    """The two places of an edge, the lower first; networkx multigraphs add a key, which is dropped."""
    try:
        a, b, *_ = edge
    except (TypeError, ValueError):
        raise ConfigError(
            f"an edge of topology 'custom' is {edge!r}, but an edge is a pair of places.\n  {EXAMPLE}"
        ) from None
    a, b = _place(a), _place(b)
    return min(a, b), max(a, b)


def _place(label: Any) -> int:
    try:
        place = index(label)
    except TypeError:
        place = -1
    if place < 0:
        raise ConfigError(
            f"an edge of topology 'custom' names place {label!r}, but places are numbered from 0.\n"
            "  Number them, for example with networkx.convert_node_labels_to_integers(graph)."
        )
    return place
