"""Medians with bootstrap bounds, and ratios of blocks."""

import pytest

from weft.bench.statistics import Interval, interval, paired_ratio


def test_the_interval_of_a_median_holds_it_and_repeats() -> None:
    values = [float(i) for i in range(1, 16)]
    middle, low, high = interval(values)
    assert 1 < low < middle == 8 < high < 15
    assert interval(values) == (middle, low, high)
    assert interval([5.0]) == (5.0, 5.0, 5.0)


def test_a_slow_spell_of_the_machine_cancels_in_a_ratio() -> None:
    spells = [1.0, 5.0, 1.3, 9.0, 2.0]
    assert paired_ratio([6 * s for s in spells], [2 * s for s in spells]) == Interval(3, 3, 3)


def test_a_ratio_above_one_says_that_the_other_takes_longer() -> None:
    assert paired_ratio([3.0, 4.0, 5.0], [1.0, 1.0, 1.0]).median == 4


def test_only_blocks_of_the_same_rounds_are_compared() -> None:
    with pytest.raises(ValueError, match="shorter"):
        paired_ratio([1.0, 2.0], [1.0])
