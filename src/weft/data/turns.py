"""Turns: items that only come one after another go to all workers in turn, in whole rounds."""

from collections.abc import Generator, Iterable
from typing import TypeVar

Item = TypeVar("Item")


def in_turn(items: Iterable[Item], rank: int, num_workers: int) -> Generator[Item, None, tuple[int, int]]:
    """One worker's items of those that all workers read alike: item i is worker i mod num_workers's.

    An item is given once its whole round has been read, so that all workers have equally many; what is left of an
    incomplete last round is nobody's. Returns how many whole rounds there were, and how many items were left.
    """
    mine: list[Item] = []
    num_items = 0
    for item in items:
        if num_items % num_workers == rank:
            mine.append(item)
        num_items += 1
        if num_items % num_workers == 0:
            yield mine.pop()
    return divmod(num_items, num_workers)
