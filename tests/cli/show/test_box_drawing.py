"""Grids and trees in box-drawing characters."""

from weft.cli.show.box_drawing import draw_grid, draw_tree
from weft.core.graph import Graph
from weft.topologies import Complete, Hypercube, Mesh, Ring, Star, Torus, Tree

TORUS_OF_16 = """\
   ╎     ╎     ╎     ╎
╌╌╌0─────1─────2─────3╌╌
   │     │     │     │
╌╌╌4─────5─────6─────7╌╌
   │     │     │     │
╌╌╌8─────9────10────11╌╌
   │     │     │     │
╌╌12────13────14────15╌╌
   ╎     ╎     ╎     ╎

Dashed edges wrap around to the opposite side."""

TORUS_2_WIDE = """\
╌╌0────1────2────3╌╌
  │    │    │    │
╌╌4────5────6────7╌╌

Dashed edges wrap around to the opposite side."""

MESH_OF_12 = """\
 0─────1─────2─────3
 │     │     │     │
 4─────5─────6─────7
 │     │     │     │
 8─────9────10────11"""

TREE_OF_15 = """\
          0
    ┌─────┴─────┐
    1           2
 ┌──┴──┐     ┌──┴──┐
 3     4     5     6
┌┴─┐  ┌┴─┐  ┌┴─┐  ┌┴─┐
7  8  9  10 11 12 13 14"""

TREE_OF_THREE = """\
   0
┌─┬┴┬─┐
1 2 3 4
│
5"""


def test_a_torus_shows_where_it_wraps_around() -> None:
    assert draw_grid(Torus().graph(16), 78) == TORUS_OF_16


def test_a_side_of_two_does_not_wrap_around() -> None:
    assert draw_grid(Torus().graph(8), 78) == TORUS_2_WIDE
    assert draw_grid(Torus(2, 2).graph(4), 78) == "0────1\n│    │\n2────3"


def test_a_mesh_has_borders() -> None:
    assert draw_grid(Mesh().graph(12), 78) == MESH_OF_12


def test_a_line_is_one_row() -> None:
    assert draw_grid(Mesh().graph(5), 78) == "0────1────2────3────4"
    assert draw_grid(Complete().graph(2), 78) == "0────1"


def test_a_grid_is_squeezed_before_it_is_given_up() -> None:
    assert draw_grid(Mesh().graph(5), 14) == "0─1─2─3─4"
    assert draw_grid(Mesh().graph(5), 13) is None


def test_what_is_no_grid_or_too_high_is_not_drawn_as_one() -> None:
    assert draw_grid(Ring().graph(8), 78) is None
    assert draw_grid(Hypercube().graph(8), 78) is None
    assert draw_grid(Mesh(32, 32).graph(1024), 200) is None


def test_a_tree_hangs_from_place_0() -> None:
    assert draw_tree(Tree().graph(15), 78) == TREE_OF_15


def test_an_only_child_hangs_straight_and_more_hang_from_one_fork() -> None:
    assert draw_tree(Tree(arity=4).graph(6), 78) == TREE_OF_THREE


def test_a_parent_above_a_child_crosses_the_fork() -> None:
    assert draw_tree(Star().graph(4), 78) == "  0\n┌─┼─┐\n1 2 3"


def test_what_is_no_tree_or_too_wide_is_not_drawn_as_one() -> None:
    assert draw_tree(Ring().graph(4), 78) is None
    assert draw_tree(Tree().graph(15), 20) is None
    assert draw_tree(Graph.undirected(30, [(i, i + 1) for i in range(29)]), 78) is None
    assert draw_tree(Graph([[[1], [0]], [[1], [0]]]), 78) is None
