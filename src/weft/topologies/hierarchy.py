"""Everybody talks inside a host; one place of each host talks to other hosts."""

from dataclasses import dataclass
from itertools import combinations, pairwise

from weft.core.errors import ConfigError
from weft.core.graph import Graph
from weft.topologies.topology import Topology


@dataclass(frozen=True)
class Hierarchy(Topology):
    """Hosts of near-equal size hold consecutive places; each host is complete, their first places a ring.

    The first hosts have one place more when they cannot be equal. Fits any number of places that
    gives every host one.
    """

    hosts: int

    def __post_init__(self) -> None:
        if self.hosts < 1:
            raise ConfigError(
                f"topology '{self}' has {self.hosts} hosts, but at least 1 is needed.\n"
                "  Use the number of machines, for example 'hierarchy(hosts=2)'."
            )

    def build(self, num_places: int) -> Graph:
        if num_places < self.hosts:
            raise ConfigError(
                f"topology '{self}' has {self.hosts} hosts, but there are {num_places} workers.\n"
                f"  Use '{Hierarchy(num_places)}' or fewer hosts, or at least {self.hosts} workers."
            )
        size, num_larger = divmod(num_places, self.hosts)
        firsts = [host * size + min(host, num_larger) for host in range(self.hosts + 1)]
        edges = [edge for start, end in pairwise(firsts) for edge in combinations(range(start, end), 2)]
        edges += zip(firsts[:-1], [*firsts[1:-1], 0], strict=True)
        return Graph.undirected(num_places, edges)

    def remade(self, num_places: int) -> Graph | None:
        """Never: who shares a host would move to another."""
        return None
