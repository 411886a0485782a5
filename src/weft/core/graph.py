"""A graph of places: who sends to whom, in each round. Structure only; weights live in topologies/."""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, reduce
from itertools import pairwise
from operator import or_

from weft.core.errors import ConfigError

Places = tuple[int, ...]


class Graph:
    """Directed edges between places 0 to num_places - 1, one set of edges for each of `num_rounds` rounds.

    A static graph has one round; a dynamic one (one-peer exponential) repeats its rounds for ever.
    Self-loops and double edges given are dropped, so a 2-wide torus lists its neighbour once.
    `transitive` promises that every place sees the same graph, which makes the numbers cheap.
    """

    def __init__(self, targets: Sequence[Sequence[Iterable[int]]], *, transitive: bool = False) -> None:
        self.rounds: tuple[tuple[Places, ...], ...] = tuple(
            tuple(tuple(sorted(set(out) - {place})) for place, out in enumerate(edges)) for edges in targets
        )
        self.num_rounds = len(self.rounds)
        self.num_places = len(self.rounds[0])
        self.transitive = transitive
        for edges in self.rounds:
            for place, out in enumerate(edges):
                for target in out[:1] + out[-1:]:  # sorted, so the ends speak for all
                    if not 0 <= target < self.num_places:
                        raise ConfigError(
                            f"an edge of the graph goes from place {place} to place {target}, "
                            f"but there are only {self.num_places} places.\n"
                            f"  Number them from 0 to {self.num_places - 1}."
                        )

    @classmethod
    def circulant(cls, num_places: int, *offsets: Iterable[int]) -> "Graph":
        """Every place sends to the places at the same offsets; one set of offsets for each round."""
        return cls(
            [[[(i + d) % num_places for d in round_] for i in range(num_places)] for round_ in offsets],
            transitive=True,
        )

    @classmethod
    def undirected(cls, num_places: int, edges: Iterable[tuple[int, int]], *, transitive: bool = False) -> "Graph":
        """A static graph in which every edge goes both ways."""
        out: list[set[int]] = [set() for _ in range(num_places)]
        for a, b in edges:
            if not (0 <= a < num_places and 0 <= b < num_places):
                raise ConfigError(
                    f"edge ({a}, {b}) leaves the graph, which has {num_places} places.\n"
                    f"  Number them from 0 to {num_places - 1}."
                )
            out[a].add(b)
            out[b].add(a)
        return cls([out], transitive=transitive)

    def targets(self, place: int, clock: int = 0) -> Places:
        """To whom `place` sends in the round of `clock`."""
        return self.rounds[clock % self.num_rounds][place]

    def sources(self, place: int, clock: int = 0) -> Places:
        """From whom `place` receives in the round of `clock`."""
        return self._reversed[clock % self.num_rounds][place]

    @cached_property
    def _reversed(self) -> tuple[tuple[Places, ...], ...]:
        result = []
        for edges in self.rounds:
            into: list[list[int]] = [[] for _ in edges]
            for place, out in enumerate(edges):
                for target in out:
                    into[target].append(place)
            result.append(tuple(tuple(sources) for sources in into))
        return tuple(result)

    @cached_property
    def is_undirected(self) -> bool:
        """Every edge goes both ways, in every round."""
        return self.rounds == self._reversed

    @cached_property
    def is_regular(self) -> bool:
        """Every place sends to, and receives from, the same number of places in a round."""
        return all(
            len({len(out) for out in edges} | {len(into) for into in back}) == 1
            for edges, back in zip(self.rounds, self._reversed, strict=True)
        )

    @cached_property
    def is_connected(self) -> bool:
        """From every place there is a way to every other (over the edges of all rounds)."""
        ways = self.everyone, self._everyone_back
        return all(len(self._distances(0, way)) == self.num_places for way in ways)

    def everyone(self, place: int) -> Places:
        """All the places that `place` sends to, in any round."""
        return tuple(sorted({target for edges in self.rounds for target in edges[place]}))

    def _everyone_back(self, place: int) -> Places:
        return tuple(sorted({source for edges in self._reversed for source in edges[place]}))

    def _distances(self, start: int, way: Callable[[int], Places]) -> dict[int, int]:
        found = {start: 0}
        front = [start]
        while front and len(found) < self.num_places:
            reached = []
            for place in front:
                for other in way(place):
                    if other not in found:
                        found[other] = found[place] + 1
                        reached.append(other)
            front = reached
        return found

    @cached_property
    def diameter(self) -> int:
        """The most hops (static) or rounds (dynamic, counted as hops of one edge each) between two places."""
        if not self.is_connected:
            raise ConfigError("the graph is not connected, so it has no diameter.\n  Add edges between its pieces.")
        starts = range(1 if self.transitive else self.num_places)
        return max(max(self._distances(start, self.everyone).values()) for start in starts)

    @property
    def degree(self) -> int:
        """The most places that one place sends to in one round."""
        return max(len(out) for edges in self.rounds for out in edges)

    @property
    def edges_per_step(self) -> float:
        """Messages of one whole step, as a mean over the rounds."""
        return sum(len(out) for edges in self.rounds for out in edges) / self.num_rounds

    @cached_property
    def lead_max(self) -> int:
        """By how many steps a source can be ahead of its target when each step waits for all sources.

        News of a place's step must reach the source before that source can go on: one step back over
        an undirected edge; at most the diameter otherwise, or as many rounds as news takes to reach all.
        """
        if self.is_undirected and self.num_rounds == 1:
            return 1
        if self.num_rounds == 1:
            return self.diameter
        if not self.is_connected:
            raise ConfigError("the graph is not connected, so leads have no end.\n  Add edges between its pieces.")
        return max(1, max(self._rounds_until_heard(clock) for clock in range(self.num_rounds)))

    def _rounds_until_heard(self, clock: int) -> int:
        """How many rounds from `clock` on until every place has heard from every other; sets are bits."""
        everyone = (1 << self.num_places) - 1
        heard = [1 << place for place in range(self.num_places)]
        num_passed = 0
        while any(known != everyone for known in heard):
            heard = [
                reduce(or_, (heard[source] for source in self.sources(place, clock + num_passed)), known)
                for place, known in enumerate(heard)
            ]
            num_passed += 1
        return num_passed

    def without(self, place: int) -> "Graph":
        """The graph after `place` left, as undirected edges; places above it move down by one.

        Its neighbours are joined in a chain, so that what was connected stays connected.
        """
        if self.num_places == 1:
            raise ConfigError(
                f"place {place} is the last of its graph and cannot leave.\n  A run needs at least 1 worker."
            )
        neighbours = sorted(set(self.everyone(place)) | set(self._everyone_back(place)))
        edges = {(a, b) for a in range(self.num_places) for b in self.everyone(a)}
        edges |= set(pairwise(neighbours))

        def moved(other: int) -> int:
            return other - (other > place)

        return Graph.undirected(self.num_places - 1, [(moved(a), moved(b)) for a, b in edges if place not in (a, b)])
