"""A topology: the immutable recipe from which the graph of any number of places is made."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields

from weft.core.errors import ConfigError
from weft.core.graph import Graph

NUM_PLACES_NAMED_MAX = 8
"""Messages name this many places, and count the rest."""


@dataclass(frozen=True)
class Topology:
    """Base of all recipes: parameters are its fields; a subclass says what `build` makes.

    The same recipe and number of places give the same graph in every process.
    """

    def graph(self, num_places: int) -> Graph:
        """The graph of `num_places` places, always connected; ConfigError when the recipe does not fit.

        One place alone fits every recipe: it has nobody to talk to.
        """
        if num_places < 1:
            raise ConfigError(f"topology '{self}' cannot have {num_places} places.\n  Use at least 1 worker.")
        if num_places == 1:
            return Graph.circulant(1, ())
        graph = self.build(num_places)
        if not graph.is_connected:
            raise ConfigError(self._disconnected(graph))
        return graph

    def build(self, num_places: int) -> Graph:
        """The graph of two or more places; `graph` checks that it is connected."""
        raise NotImplementedError

    def remade(self, num_places: int) -> Graph | None:
        """The graph for those who are left of a run; None where its holes are rather closed (Graph.without)."""
        try:
            return self.graph(num_places)
        except ConfigError:
            return None

    def __str__(self) -> str:
        """As the command line writes it: only what differs from the defaults."""
        values = [(field, getattr(self, field.name)) for field in fields(self)]
        given = [f"{field.name}={value!r}" for field, value in values if value != field.default]
        return written(type(self).__name__, given)

    def _disconnected(self, graph: Graph) -> str:
        onward = _reached(graph.everyone)
        lost = sorted(set(range(graph.num_places)) - onward)
        if lost:
            return (
                f"topology '{self}' is not connected: no way leads from place 0 to {named(lost)}.\n"
                f"  Add an edge from a place that can be reached, for example ({max(onward)}, {lost[0]})."
            )
        clocks = range(graph.num_rounds)
        back = _reached(lambda place: (source for clock in clocks for source in graph.sources(place, clock)))
        lost = sorted(set(range(graph.num_places)) - back)
        return (
            f"topology '{self}' is not connected: no way leads back from {named(lost)} to place 0.\n"
            f"  Add an edge out of there, for example ({lost[0]}, {max(back)})."
        )


def written(class_name: str, arguments: Iterable[str]) -> str:
    """A recipe in the grammar of the command line: 'random_regular(degree=6)'."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", class_name).lower()
    listed = ", ".join(arguments)
    return f"{name}({listed})" if listed else name


def named(places: list[int]) -> str:
    """'place 3', 'places 3, 4' or 'places 0, 1, 2, 3, 4, 5, 6, 7 and 12 more'."""
    if len(places) == 1:
        return f"place {places[0]}"
    listed = ", ".join(str(place) for place in places[:NUM_PLACES_NAMED_MAX])
    num_more = len(places) - NUM_PLACES_NAMED_MAX
    return f"places {listed}" + (f" and {num_more} more" if num_more > 0 else "")


def _reached(way: Callable[[int], Iterable[int]]) -> set[int]:
    found = {0}
    front = [0]
    while front:
        front = list({other for place in front for other in way(place)} - found)
        found |= set(front)
    return found
