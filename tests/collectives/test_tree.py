"""The binomial tree's schedule."""

from weft.collectives import tree
from weft.core.schedule import Give, Take


def test_the_root_takes_from_its_children_and_gives_the_result_to_the_farthest_first() -> None:
    assert tree(0, 8) == (Take(1, early=0), Take(2, early=1), Take(4, early=2), Give(4), Give(2), Give(1))


def test_an_inner_rank_passes_on_what_its_children_gave() -> None:
    assert tree(6, 8) == (Take(7, early=0), Give(4), Take(4, replace=True, early=1), Give(7))


def test_a_leaf_only_speaks_to_its_parent() -> None:
    assert tree(5, 8) == (Give(4), Take(4, replace=True, early=0))


def test_children_that_do_not_exist_are_left_out() -> None:
    assert tree(0, 5) == (Take(1, early=0), Take(2, early=1), Take(4, early=2), Give(4), Give(2), Give(1))
    assert tree(4, 5) == (Give(0), Take(0, replace=True, early=0))
