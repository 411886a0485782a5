"""Everybody talks to everybody."""

from weft.topologies import Complete
from weft.topologies.weights import mixing


def test_everybody_talks_to_all_others_in_one_hop() -> None:
    graph = Complete().graph(5)
    assert graph.targets(2) == (0, 1, 3, 4)
    assert graph.diameter == 1
    assert graph.edges_per_step == 20


def test_one_mixing_step_gives_the_mean() -> None:
    weights = mixing(Complete().graph(4))
    assert weights.matrix() == [[0.25] * 4] * 4
