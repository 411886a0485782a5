"""Edges as the user lists them."""

import re
from typing import Any

import pytest

from weft.core.errors import ConfigError
from weft.topologies import Custom


class FakeNetworkx:
    """As much of a networkx graph as Weft reads; iterating it gives nodes, as there."""

    def __init__(self, num_nodes: int, edges: list[Any]) -> None:
        self.num_nodes = num_nodes
        self.edges = edges

    def __iter__(self) -> Any:
        return iter(range(self.num_nodes))

    def number_of_nodes(self) -> int:
        return self.num_nodes


def test_edges_go_both_ways() -> None:
    assert Custom([(0, 1), (2, 1)]).graph(3).rounds == (((1,), (0, 2), (1,)),)


def test_the_same_edges_in_another_order_are_the_same_recipe() -> None:
    assert Custom([(0, 1), (2, 1)]) == Custom(iter([[1, 2], [1, 0], [0, 1]]))  # type: ignore[arg-type]


def test_a_networkx_graph_is_read_by_its_edges() -> None:
    assert Custom(FakeNetworkx(3, [(0, 1), (1, 2)])) == Custom([(0, 1), (1, 2)])


def test_the_keys_of_a_networkx_multigraph_are_dropped() -> None:
    assert Custom(FakeNetworkx(3, [(0, 1, 0), (0, 1, 1), (1, 2, 0)])) == Custom([(0, 1), (1, 2)])


@pytest.mark.parametrize(
    ("edges", "num_workers", "message"),
    [
        (
            [(0, 1), (2, 3)],
            4,
            (
                "topology 'custom' is not connected: no way leads from place 0 to places 2, 3.\n"
                "  Add an edge from a place that can be reached, for example (1, 2)."
            ),
        ),
        (
            FakeNetworkx(4, [(0, 1), (1, 2)]),
            4,
            (
                "topology 'custom' is not connected: no way leads from place 0 to place 3.\n"
                "  Add an edge from a place that can be reached, for example (2, 3)."
            ),
        ),
        (
            [(0, 1), (1, 2)],
            5,
            (
                "topology 'custom' has 3 places, but there are 5 workers.\n"
                "  Use 3 workers, or add edges for places 3, 4."
            ),
        ),
        (
            [(0, 1), (1, 2), (2, 3)],
            2,
            (
                "topology 'custom' has 4 places, but there are 2 workers.\n"
                "  Use 4 workers, or leave out the edges of places 2 and above."
            ),
        ),
        (
            [],
            2,
            ("topology 'custom' has 0 places, but there are 2 workers.\n  Use for example 'custom([(0, 1), (1, 2)])'."),
        ),
    ],
)
def test_edges_that_do_not_fit_the_workers_are_refused(edges: Any, num_workers: int, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        Custom(edges).graph(num_workers)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        (
            5,
            (
                "topology 'custom' was given 5, but it takes pairs of places or a networkx graph.\n"
                "  Use for example 'custom([(0, 1), (1, 2)])'."
            ),
        ),
        (
            [(0, 1), 7],
            (
                "an edge of topology 'custom' is 7, but an edge is a pair of places.\n"
                "  Use for example 'custom([(0, 1), (1, 2)])'."
            ),
        ),
        (
            [(0,)],
            (
                "an edge of topology 'custom' is (0,), but an edge is a pair of places.\n"
                "  Use for example 'custom([(0, 1), (1, 2)])'."
            ),
        ),
        (
            FakeNetworkx(2, [("a", "b")]),
            (
                "an edge of topology 'custom' names place 'a', but places are numbered from 0.\n"
                "  Number them, for example with networkx.convert_node_labels_to_integers(graph)."
            ),
        ),
        (
            [(0, -1)],
            (
                "an edge of topology 'custom' names place -1, but places are numbered from 0.\n"
                "  Number them, for example with networkx.convert_node_labels_to_integers(graph)."
            ),
        ),
    ],
)
def test_what_is_no_list_of_pairs_of_places_is_refused(edges: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        Custom(edges)
