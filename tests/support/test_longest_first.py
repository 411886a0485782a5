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


def test_a_test_that_ends_its_process_fails_once_and_the_rest_of_its_file_goes_to_the_next() -> None:
    made = scheduler()
    node, other = Node(), Node()
    file = "core/test_graph.py"
    made.assigned_work[node] = {file: {"passed": True, "hung": False, "after it": False}}
    assert made.remove_node(node) == "hung"
    assert made.workqueue == {file: {"passed": True, "hung": True, "after it": False}}
    made.assigned_work[other] = {file: {"passed": True, "hung": True}}
    assert made.remove_node(other) is None, "a process that has nothing left has not ended by a test"
