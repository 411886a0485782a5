"""Grids with borders."""

from weft.topologies import Mesh, Torus


def test_corners_have_two_neighbours_and_the_middle_four() -> None:
    graph = Mesh(3, 3).graph(9)
    assert graph.targets(0) == (1, 3)
    assert graph.targets(1) == (0, 2, 4)
    assert graph.targets(4) == (1, 3, 5, 7)
    assert not graph.is_regular


def test_a_prime_mesh_is_a_line() -> None:
    assert Mesh().graph(5).rounds == (((1,), (0, 2), (1, 3), (2, 4), (3,)),)


def test_a_mesh_may_have_three_sides() -> None:
    assert Mesh(2, 2, 2).graph(8).rounds == Torus(2, 2, 2).graph(8).rounds


def test_a_mesh_is_not_a_torus_of_the_same_sides() -> None:
    mesh: object = Mesh(2, 2)
    assert mesh != Torus(2, 2)
