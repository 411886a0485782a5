"""Everybody talks to the two beside."""

from weft.topologies import Ring


def test_everybody_talks_to_the_two_beside() -> None:
    graph = Ring().graph(5)
    assert graph.rounds == (((1, 4), (0, 2), (1, 3), (2, 4), (0, 3)),)
    assert graph.diameter == 2


def test_a_ring_of_two_has_one_edge() -> None:
    assert Ring().graph(2).rounds == (((1,), (0,)),)
