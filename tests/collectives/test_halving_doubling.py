"""The schedule of halving and doubling."""

from weft.collectives import halving_doubling
from weft.core.names import Part
from weft.core.schedule import Give, Take


def test_ever_smaller_halves_are_swapped_then_ever_larger_ones_spread() -> None:
    assert halving_doubling(1, 4) == (
        Give(3, Part(1, 2)),
        Take(3, Part(0, 2)),
        Give(0, Part(0, 4)),
        Take(0, Part(1, 4), early=1),
        Give(0, Part(1, 4)),
        Take(0, Part(0, 4), replace=True, early=1),
        Give(3, Part(0, 2)),
        Take(3, Part(1, 2), replace=True),
    )


def test_after_halving_every_rank_owns_another_part() -> None:
    owned = set()
    for rank in range(8):
        takes = [step for step in halving_doubling(rank, 8) if isinstance(step, Take) and not step.replace]
        owned.add(takes[-1].part)
    assert owned == {Part(i, 8) for i in range(8)}


def test_three_ranks_fold_into_two() -> None:
    assert halving_doubling(2, 3) == (Give(0), Take(0, replace=True))
    assert halving_doubling(0, 3)[0] == Take(2)
    assert halving_doubling(0, 3)[-1] == Give(2)
