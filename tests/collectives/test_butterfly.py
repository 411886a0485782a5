"""The butterfly's schedule."""

from weft.collectives import butterfly
from weft.core.schedule import Give, Take


def test_whole_buckets_are_swapped_with_partners_ever_farther_away() -> None:
    assert butterfly(5, 8) == (Give(4), Take(4), Give(7), Take(7, early=1), Give(1), Take(1, early=2))


def test_three_ranks_fold_into_two() -> None:
    assert [butterfly(rank, 3) for rank in range(3)] == [
        (Take(2), Give(1), Take(1, early=1), Give(2)),
        (Give(0), Take(0)),
        (Give(0), Take(0, replace=True)),
    ]
