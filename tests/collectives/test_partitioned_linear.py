"""The partitioned linear schedule."""

from weft.collectives import partitioned_linear
from weft.core.names import Part
from weft.core.schedule import Give, Take

A, B, C = (Part(i, 3) for i in range(3))


def test_an_end_of_the_line_gives_the_parts_with_the_longest_way_first() -> None:
    assert partitioned_linear(0, 3) == (
        Give(1, C),
        Give(1, B),
        Take(1, A, early=1),
        Give(1, A),
        Take(1, B, replace=True, early=1),
        Take(1, C, replace=True, early=1),
    )


def test_a_rank_between_sums_and_passes_on_both_ways_and_owns_a_part() -> None:
    assert partitioned_linear(1, 3) == (
        Take(2, A, early=1),
        Take(0, C, early=0),
        Give(0, A),
        Give(2, C),
        Take(0, B, early=0),
        Take(2, B, early=1),
        Give(2, B),
        Give(0, B),
        Take(0, A, replace=True, early=0),
        Take(2, C, replace=True, early=1),
        Give(2, A),
        Give(0, C),
    )


def test_ranks_speak_to_their_neighbours_on_the_line_only() -> None:
    for rank in range(7):
        given = {step.to for step in partitioned_linear(rank, 7) if isinstance(step, Give)}
        assert given == {rank - 1, rank + 1} & set(range(7))


def test_every_link_carries_every_part_once_in_each_direction() -> None:
    for rank in range(4):
        rightwards = [step.part for step in partitioned_linear(rank, 5) if step == Give(rank + 1, step.part)]
        assert sorted(part for part in rightwards if part) == [Part(i, 5) for i in range(5)]
