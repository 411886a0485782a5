"""Everybody talks to one parent and a few children."""

import re

import pytest

from weft.core.errors import ConfigError
from weft.topologies import Tree


def test_the_root_has_no_parent_and_leaves_no_children() -> None:
    graph = Tree().graph(7)
    assert graph.targets(0) == (1, 2)
    assert graph.targets(1) == (0, 3, 4)
    assert graph.targets(6) == (2,)


@pytest.mark.parametrize("arity", [1, 2, 3, 10])
def test_a_tree_has_the_fewest_edges_there_can_be(arity: int) -> None:
    assert Tree(arity).graph(9).edges_per_step == 2 * 8


def test_a_tree_without_children_is_refused() -> None:
    message = (
        "topology 'tree(arity=0)' has an arity of 0, but a parent has at least 1 child.\n"
        "  Use 'tree' for two children each, or 'tree(arity=1)' for a line."
    )
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        Tree(arity=0)
