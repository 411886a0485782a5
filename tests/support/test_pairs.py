"""Combinations in which each value occurs."""

from support.pairs import in_turn


def test_each_value_of_each_axis_occurs() -> None:
    assert in_turn("abc", [1, 2]) == [("a", 1), ("b", 2), ("c", 1)]
    assert in_turn([1], {"x": 0, "y": 1}) == [(1, "x"), (1, "y")]
