"""Everybody talks to place 0."""

from weft.topologies import Star


def test_place_0_is_the_hub() -> None:
    graph = Star().graph(4)
    assert graph.rounds == (((1, 2, 3), (0,), (0,), (0,)),)
    assert graph.diameter == 2


def test_when_the_hub_leaves_the_rest_form_a_line() -> None:
    assert Star().graph(4).without(0).rounds == (((1,), (0, 2), (1,)),)
