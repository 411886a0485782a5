"""Who sends to whom, and what follows from it."""

import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.errors import ConfigError
from weft.core.graph import Graph

IN_PIECES = Graph.undirected(4, [(0, 1), (2, 3)])
TRIANGLE_NOW_AND_THEN = Graph([[[1], [2], [0]], [[], [], []], [[], [], []], [[], [], []]])
"""A directed triangle that speaks in one round of four."""


@st.composite
def connected_graphs(draw: st.DrawFn) -> Graph:
    """A directed cycle through all places, cut up over the rounds, and some more edges."""
    num_places = draw(st.integers(2, 9))
    num_rounds = draw(st.integers(1, 3))
    rng = Random(draw(st.integers(0, 10_000)))
    rounds = [[set[int]() for _ in range(num_places)] for _ in range(num_rounds)]
    order = rng.sample(range(num_places), num_places)
    for place, target in zip(order, order[1:] + order[:1], strict=True):
        rounds[rng.randrange(num_rounds)][place].add(target)
    for _ in range(draw(st.integers(0, 6))):
        rounds[rng.randrange(num_rounds)][rng.randrange(num_places)].add(rng.randrange(num_places))
    return Graph(rounds)


def lead_over(graph: Graph, slow: int, clock: int) -> int:
    """How far the sources of `slow` get while it never finishes the step of `clock`."""
    clocks = [clock] * graph.num_places
    moved = True
    while moved:
        moved = False
        for place in set(range(graph.num_places)) - {slow}:
            if all(clocks[source] >= clocks[place] for source in graph.sources(place, clocks[place])):
                clocks[place] += 1
                moved = True
    sources = {s for c in range(graph.num_rounds) for s in graph.sources(slow, c)}
    return max(clocks[source] - clock for source in sources)


def test_loops_and_double_edges_are_dropped() -> None:
    assert Graph([[[1, 1, 0], [0, 1]]]).rounds == (((1,), (0,)),)


def test_sources_are_the_targets_seen_from_the_other_end() -> None:
    graph = Graph([[[1, 2], [2], []]])
    assert [graph.targets(place) for place in range(3)] == [(1, 2), (2,), ()]
    assert [graph.sources(place) for place in range(3)] == [(), (0,), (0, 1)]


def test_rounds_repeat_for_ever() -> None:
    graph = Graph.circulant(5, [1], [2])
    assert [graph.targets(0, clock) for clock in range(5)] == [(1,), (2,), (1,), (2,), (1,)]
    assert [graph.sources(0, clock) for clock in range(3)] == [(4,), (3,), (4,)]
    assert graph.everyone(0) == (1, 2)


@pytest.mark.parametrize("rounds", [[[[3], [0]]], [[[1], [0]], [[3], [0]]], [[[-1], [0]]]])
def test_an_edge_out_of_the_graph_is_refused_in_every_round(rounds: list[list[list[int]]]) -> None:
    target = min((rounds[-1][0][0], 3))
    message = (
        f"an edge of the graph goes from place 0 to place {target}, but there are only 2 places.\n"
        "  Number them from 0 to 1."
    )
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        Graph(rounds)


def test_an_undirected_edge_out_of_the_graph_is_refused() -> None:
    message = "edge (1, 4) leaves the graph, which has 3 places.\n  Number them from 0 to 2."
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        Graph.undirected(3, [(0, 1), (1, 4)])


def test_undirected_means_both_ways_in_every_round() -> None:
    assert Graph.undirected(3, [(0, 1), (1, 2)]).is_undirected
    assert not Graph([[[1], [0]], [[1], []]]).is_undirected
    assert not Graph.circulant(3, [1], [2]).is_undirected


def test_regular_means_that_all_send_to_and_receive_from_as_many_in_a_round() -> None:
    assert Graph.circulant(6, [1, 2, 4]).is_regular
    assert Graph([[[1], [0]], [[], []]]).is_regular
    assert not Graph.undirected(3, [(0, 1), (1, 2)]).is_regular
    assert not Graph([[[1], [2], [1]]]).is_regular


def test_connected_means_there_and_back_over_all_rounds() -> None:
    assert not IN_PIECES.is_connected
    assert not Graph([[[1], []]]).is_connected
    assert not Graph([[[], [0]]]).is_connected
    assert Graph([[[1], []], [[], [0]]]).is_connected
    assert Graph.circulant(1, ()).is_connected


def test_the_numbers_of_a_directed_ring() -> None:
    graph = Graph.circulant(6, [1])
    assert graph.diameter == 5
    assert graph.degree == 1
    assert graph.edges_per_step == 6
    assert graph.lead_max == 5


def test_the_numbers_of_a_line() -> None:
    graph = Graph.undirected(4, [(0, 1), (1, 2), (2, 3)])
    assert graph.diameter == 3
    assert graph.degree == 2
    assert graph.edges_per_step == 6
    assert graph.lead_max == 1


def test_edges_per_step_are_a_mean_over_the_rounds() -> None:
    assert Graph([[[1], [0]], [[1], []]]).edges_per_step == 1.5


def test_a_graph_in_pieces_has_no_diameter() -> None:
    message = "the graph is not connected, so it has no diameter.\n  Add edges between its pieces."
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        _ = IN_PIECES.diameter


def test_a_dynamic_graph_in_pieces_has_no_greatest_lead() -> None:
    message = "the graph is not connected, so leads have no end.\n  Add edges between its pieces."
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        _ = Graph([[[1], [0], []], [[], [], []]]).lead_max


def test_news_that_waits_for_its_round_lets_a_source_run_further_ahead() -> None:
    assert lead_over(TRIANGLE_NOW_AND_THEN, slow=1, clock=0) == 8
    assert TRIANGLE_NOW_AND_THEN.lead_max == 8


@given(connected_graphs(), st.integers(0, 2))
def test_no_source_is_ever_further_ahead_than_the_greatest_lead(graph: Graph, clock: int) -> None:
    for slow in range(graph.num_places):
        assert lead_over(graph, slow, clock) <= graph.lead_max


def test_when_a_place_leaves_its_neighbours_are_joined_in_a_chain() -> None:
    star = Graph.undirected(5, [(2, 0), (2, 1), (2, 3), (2, 4)])
    assert star.without(2).rounds == Graph.undirected(4, [(0, 1), (1, 2), (2, 3)]).rounds


def test_places_above_the_one_that_left_move_down() -> None:
    line = Graph.undirected(4, [(0, 1), (1, 2), (2, 3)])
    assert line.without(0).rounds == Graph.undirected(3, [(0, 1), (1, 2)]).rounds
    assert line.without(3).rounds == Graph.undirected(3, [(0, 1), (1, 2)]).rounds


@given(connected_graphs(), st.data())
def test_however_many_leave_the_rest_stay_connected(graph: Graph, data: st.DataObject) -> None:
    while graph.num_places > 1:
        graph = graph.without(data.draw(st.integers(0, graph.num_places - 1)))
        assert graph.is_connected
        assert graph.is_undirected
        assert graph.num_rounds == 1


def test_the_last_place_cannot_leave() -> None:
    message = "place 0 is the last of its graph and cannot leave.\n  A run needs at least 1 worker."
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        Graph.circulant(1, ()).without(0)
