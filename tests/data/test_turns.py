"""Items that come one after another, taken in turn."""

from collections.abc import Iterator

import pytest

from weft.data.turns import in_turn


def taken(num_items: int, rank: int, num_workers: int) -> tuple[list[int], tuple[int, int]]:
    """One worker's items, and what is said at the end."""
    told: list[tuple[int, int]] = []

    def turns() -> Iterator[int]:
        told.append((yield from in_turn(range(num_items), rank, num_workers)))

    return list(turns()), told[0]


@pytest.mark.parametrize(("num_items", "num_workers"), [(12, 3), (13, 3), (14, 3), (7, 7), (2, 4), (0, 2), (5, 1)])
def test_every_item_of_whole_rounds_is_taken_once_and_all_workers_take_equally_many(
    num_items: int, num_workers: int
) -> None:
    everybody = [taken(num_items, rank, num_workers) for rank in range(num_workers)]
    rounds, rest = divmod(num_items, num_workers)
    assert sorted(item for items, _ in everybody for item in items) == list(range(rounds * num_workers))
    for rank, (items, told) in enumerate(everybody):
        assert items == list(range(rank, rounds * num_workers, num_workers))
        assert told == (rounds, rest)


def test_no_more_is_read_than_the_round_of_the_item() -> None:
    read: list[int] = []

    def endless() -> Iterator[int]:
        while True:
            read.append(len(read))
            yield read[-1]

    turns = in_turn(endless(), 0, 3)
    assert (next(turns), read) == (0, [0, 1, 2])
    assert (next(turns), read) == (3, [0, 1, 2, 3, 4, 5])
