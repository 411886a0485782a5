"""Combinations of what a test is repeated for: each value occurs, where all combinations would take too long.

All combinations, drawn by seed, are what `make soak` and `weft fuzz` are for.
"""

from collections.abc import Iterable
from typing import Any


def in_turn(*axes: Iterable[Any]) -> list[tuple[Any, ...]]:
    """As many combinations as the longest axis has values: the shorter ones are gone through again and again."""
    values = [list(axis) for axis in axes]
    return [tuple(each[number % len(each)] for each in values) for number in range(max(map(len, values)))]
