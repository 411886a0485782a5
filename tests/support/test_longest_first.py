"""Who is given what of parallel tests."""

from collections import OrderedDict
from pathlib import Path
from typing import Any

from support.longest_first import GROUPS, SECONDS, LongestFirst

TESTS = Path(__file__).parents[1]


def scheduler(*scopes: str) -> Any:
    """One that has these to give out."""
    made = LongestFirst.__new__(LongestFirst)
    made.workqueue = OrderedDict((scope, {}) for scope in scopes)
    made.assigned_work = {}
    return made


class Node:
    """A process of tests."""

    def send_runtest_some(self, numbers: list[int]) -> None:
        """Nothing runs."""


def test_a_test_is_given_with_its_group_or_else_with_its_file() -> None:
    scope = scheduler()._split_scope
    assert scope("tests/engines/ray/test_launch.py::test_it") == "engines/ray/"
    assert scope("tests/core/test_graph.py::test_it") == "core/test_graph.py"
    assert scope("tests/core/test_graph.py::test_it[a::b]") == "core/test_graph.py"


def test_what_takes_longest_is_given_first() -> None:
    short, longer, longest = "core/test_graph.py", "conformance/test_torchrun.py", "engines/ray/"
    made = scheduler(short, longer, longest)
    node = Node()
    made.registered_collections = {node: []}
    for _ in range(3):
        made._assign_work_unit(node)
    assert list(made.assigned_work[node]) == [longest, longer, short]


def test_what_is_said_to_take_long_is_there() -> None:
    assert [place for place in SECONDS if not (TESTS / place).exists()] == []
    assert [group for group in GROUPS if group not in SECONDS] == []
