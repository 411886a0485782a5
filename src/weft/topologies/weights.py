"""Mixing weights: how much of each neighbour's parameters a place takes.

Gossip keeps the mean of all replicas only if W is doubly stochastic: what every place takes adds up
to 1, and so does what every place gives. The rules here promise it, or refuse the graph. Push-sum
needs only the second half, which equal shares give, and corrects the rest by its own weights.
"""

from math import fsum

from weft.core.errors import ConfigError, did_you_mean
from weft.core.graph import Graph

AUTO = "auto"
METROPOLIS = "metropolis"
UNIFORM = "uniform"
PUSH_SUM = "strategy 'push_sum', which works on any directed graph"


class Mixing:
    """The doubly stochastic matrix W of a graph, a row at a time; made by `mixing`.

    Rows are computed when asked for and remembered: callers read them and never change them.
    """

    def __init__(self, graph: Graph, rule: str) -> None:
        self.graph = graph
        self.rule = rule
        self._rows: dict[tuple[int, int], dict[int, float]] = {}

    def row(self, place: int, clock: int = 0) -> dict[int, float]:
        """The weight of every source of `place` in the round of `clock`, without `place` itself."""
        key = place, clock % self.graph.num_rounds
        if key not in self._rows:
            self._rows[key] = self._computed(*key)
        return self._rows[key]

    def keep(self, place: int, clock: int = 0) -> float:
        """The weight of what `place` holds itself: the rest to 1."""
        return 1.0 - fsum(self.row(place, clock).values())

    def matrix(self, clock: int = 0) -> list[list[float]]:
        """All of W in the round of `clock`; row i says what place i takes."""
        result = []
        for place in range(self.graph.num_places):
            dense = [0.0] * self.graph.num_places
            dense[place] = self.keep(place, clock)
            for source, weight in self.row(place, clock).items():
                dense[source] = weight
            result.append(dense)
        return result

    def _computed(self, place: int, clock: int) -> dict[int, float]:
        sources = self.graph.sources(place, clock)
        if self.rule == UNIFORM:
            return dict.fromkeys(sources, 1.0 / (len(sources) + 1))
        degrees = [max(len(sources), len(self.graph.sources(source, clock))) for source in sources]
        return {source: 1.0 / (1 + degree) for source, degree in zip(sources, degrees, strict=True)}


def mixing(graph: Graph, weights: str = AUTO) -> Mixing:
    """The mixing weights of a graph; ConfigError when they would not keep the mean.

    'metropolis' (undirected): W_ij = 1 / (1 + max(d_i, d_j)), Metropolis-Hastings. 'uniform' (regular):
    1 / (d + 1). 'auto' takes the first of them that fits. A dynamic graph is weighed round by round.
    """
    if weights == AUTO:
        if not (graph.is_undirected or graph.is_regular):
            raise ConfigError(
                f"no mixing weights keep the mean here: {_one_way(graph)}, and {_irregular(graph)}.\n  Use {PUSH_SUM}."
            )
        return Mixing(graph, METROPOLIS if graph.is_undirected else UNIFORM)
    if weights == METROPOLIS and not graph.is_undirected:
        instead = "weights='uniform'" if graph.is_regular else PUSH_SUM
        raise ConfigError(
            f"weights='metropolis' needs edges that go both ways, but {_one_way(graph)}.\n  Use {instead}."
        )
    if weights == UNIFORM and not graph.is_regular:
        instead = (
            "weights='metropolis', which keeps the mean on any undirected graph" if graph.is_undirected else PUSH_SUM
        )
        raise ConfigError(f"weights='uniform' would bias the mean, because {_irregular(graph)}.\n  Use {instead}.")
    if weights not in (METROPOLIS, UNIFORM):
        known = (AUTO, METROPOLIS, UNIFORM)
        raise ConfigError(
            f"weights='{weights}' is not a mixing rule; it is one of {', '.join(known)}.\n"
            f"  {did_you_mean(weights, known)}"
        )
    return Mixing(graph, weights)


def _one_way(graph: Graph) -> str:
    place, target = next(
        (place, target)
        for clock in range(graph.num_rounds)
        for place in range(graph.num_places)
        for target in graph.targets(place, clock)
        if place not in graph.targets(target, clock)
    )
    return f"place {place} sends to place {target} and receives nothing from it"


def _irregular(graph: Graph) -> str:
    verb, first, place, other = next(
        (verb, len(way(0, clock)), place, len(way(place, clock)))
        for clock in range(graph.num_rounds)
        for verb, way in (("sends to", graph.targets), ("receives from", graph.sources))
        for place in range(graph.num_places)
        if len(way(place, clock)) != len(way(0, clock))
    )
    return f"place 0 {verb} {first} and place {place} {verb} {other}"
