"""Mixing weights keep the mean, or are refused."""

import re
from math import fsum

import pytest
from support.oracles.doubly_stochastic import is_doubly_stochastic

from weft.core.errors import ConfigError
from weft.core.graph import Graph
from weft.topologies import Complete, Exponential, Hypercube, Mesh, Ring, Star, Topology, Torus
from weft.topologies.weights import mixing

ONE_WAY_AND_IRREGULAR = Graph([[[1, 2], [2], [0]]])
UNEVEN_INTO = Graph([[[1], [2], [1]]])


def mixed(matrix: list[list[float]], values: list[float], num_steps: int) -> list[float]:
    for _ in range(num_steps):
        values = [fsum(w * v for w, v in zip(row, values, strict=True)) for row in matrix]
    return values


def test_uniform_weights_on_a_mesh_would_miss_the_mean_and_are_refused() -> None:
    graph = Mesh(4, 4).graph(16)
    squares = [float(k * k) for k in range(16)]
    biased = [
        [1 / (len(graph.sources(i)) + 1) if j == i or j in graph.sources(i) else 0.0 for j in range(16)]
        for i in range(16)
    ]
    assert mixed(biased, squares, 400) == pytest.approx([75.375] * 16, abs=1e-9)
    assert fsum(squares) / 16 == 77.5
    message = (
        "weights='uniform' would bias the mean, because place 0 sends to 2 and place 1 sends to 3.\n"
        "  Use weights='metropolis', which keeps the mean on any undirected graph."
    )
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        mixing(graph, "uniform")


def test_metropolis_weights_on_a_mesh_find_the_mean() -> None:
    matrix = mixing(Mesh(4, 4).graph(16), "metropolis").matrix()
    squares = [float(k * k) for k in range(16)]
    assert mixed(matrix, squares, 400) == pytest.approx([77.5] * 16, abs=1e-9)


def test_metropolis_divides_by_the_larger_degree_of_the_two() -> None:
    weights = mixing(Star().graph(4), "metropolis")
    assert weights.row(0) == {1: 0.25, 2: 0.25, 3: 0.25}
    assert weights.row(1) == {0: 0.25}
    assert weights.keep(0) == 0.25
    assert weights.keep(1) == 0.75


@pytest.mark.parametrize("topology", [Complete(), Ring(), Torus(), Hypercube()], ids=str)
def test_on_a_regular_graph_metropolis_and_uniform_agree(topology: Topology) -> None:
    graph = topology.graph(16)
    assert mixing(graph, "metropolis").matrix() == mixing(graph, "uniform").matrix()


def test_uniform_weights_follow_the_edges_to_their_sources() -> None:
    weights = mixing(Exponential().graph(8), "uniform")
    assert weights.row(0) == {4: 0.25, 6: 0.25, 7: 0.25}


def test_a_dynamic_graph_is_weighed_round_by_round_for_ever() -> None:
    weights = mixing(Exponential(one_peer=True).graph(8))
    assert [weights.row(0, clock) for clock in range(4)] == [{7: 0.5}, {6: 0.5}, {4: 0.5}, {7: 0.5}]
    assert weights.row(0, 3) is weights.row(0, 0)


def test_auto_takes_metropolis_where_edges_go_both_ways_and_uniform_elsewhere() -> None:
    assert mixing(Mesh().graph(9)).rule == "metropolis"
    assert mixing(Torus().graph(9)).rule == "metropolis"
    assert mixing(Exponential().graph(9)).rule == "uniform"


def test_one_place_keeps_all_of_its_own() -> None:
    weights = mixing(Ring().graph(1))
    assert weights.row(0) == {}
    assert weights.keep(0) == 1.0
    assert weights.matrix() == [[1.0]]


@pytest.mark.parametrize(
    ("graph", "weights", "message"),
    [
        (
            ONE_WAY_AND_IRREGULAR,
            "auto",
            (
                "no mixing weights keep the mean here: place 0 sends to place 1 and receives nothing from it, "
                "and place 0 sends to 2 and place 1 sends to 1.\n"
                "  Use strategy 'push_sum', which works on any directed graph."
            ),
        ),
        (
            ONE_WAY_AND_IRREGULAR,
            "metropolis",
            (
                "weights='metropolis' needs edges that go both ways, "
                "but place 0 sends to place 1 and receives nothing from it.\n"
                "  Use strategy 'push_sum', which works on any directed graph."
            ),
        ),
        (
            Exponential().graph(8),
            "metropolis",
            (
                "weights='metropolis' needs edges that go both ways, "
                "but place 0 sends to place 1 and receives nothing from it.\n"
                "  Use weights='uniform'."
            ),
        ),
        (
            UNEVEN_INTO,
            "uniform",
            (
                "weights='uniform' would bias the mean, "
                "because place 0 receives from 0 and place 1 receives from 2.\n"
                "  Use strategy 'push_sum', which works on any directed graph."
            ),
        ),
        (
            Ring().graph(4),
            "metropolitan",
            (
                "weights='metropolitan' is not a mixing rule; it is one of auto, metropolis, uniform.\n"
                "  Did you mean 'metropolis'?"
            ),
        ),
    ],
)
def test_weights_that_would_not_keep_the_mean_are_refused(graph: Graph, weights: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        mixing(graph, weights)


def test_the_oracle_finds_what_is_not_doubly_stochastic() -> None:
    assert is_doubly_stochastic([[0.5, 0.5], [0.5, 0.5]])
    wrong = [[[0.5, 0.5], [1.0, 0.0]], [[1.5, -0.5], [-0.5, 1.5]], [[0.5, 0.5]], [[1.0, 1e-9], [0.0, 1.0]]]
    assert [matrix for matrix in wrong if is_doubly_stochastic(matrix)] == []
