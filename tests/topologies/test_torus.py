"""Grids that wrap around."""

import pytest

from weft.topologies import Ring, Torus


def test_a_place_of_a_large_torus_has_four_neighbours() -> None:
    graph = Torus().graph(16)
    assert graph.targets(0) == (1, 3, 4, 12)
    assert graph.targets(5) == (1, 4, 6, 9)
    assert graph.diameter == 4


def test_a_torus_2_wide_lists_the_neighbour_on_both_sides_once() -> None:
    graph = Torus(2, 4).graph(8)
    assert graph.targets(0) == (1, 3, 4)
    assert graph.is_regular
    assert graph.degree == 3


def test_a_torus_of_two_sides_of_two_is_a_square() -> None:
    assert Torus(2, 2).graph(4).rounds == (((1, 2), (0, 3), (0, 3), (1, 2)),)


@pytest.mark.parametrize("num_places", [2, 3, 5, 7, 13])
def test_a_prime_torus_is_a_ring(num_places: int) -> None:
    assert Torus().graph(num_places).rounds == Ring().graph(num_places).rounds
    assert Torus(num_places).graph(num_places).rounds == Ring().graph(num_places).rounds


def test_a_torus_may_have_three_sides() -> None:
    graph = Torus(3, 3, 3).graph(27)
    assert graph.targets(0) == (1, 2, 3, 6, 9, 18)
    assert graph.diameter == 3


def test_sides_are_given_one_by_one() -> None:
    assert Torus(2, 4).sides == (2, 4)
    assert Torus().sides == ()
    assert Torus(2, 4) == Torus(2, 4) != Torus(4, 2)
