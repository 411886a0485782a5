"""What several kernels are made of."""

import numpy as np

from weft.codecs.kernels.shared import fill, mend, mixed, peak
from weft.codecs.randomk import mixed as mixed_in_numpy


def test_numbers_are_mixed_as_in_numpy() -> None:
    with np.errstate(over="ignore"):
        assert mixed(np.uint64(7)) == mixed_in_numpy(np.array([7], np.uint64))[0]


def test_a_block_is_values_and_residual_of_a_range() -> None:
    values, residual, block = np.array([9, 1, -4, 2], np.float32), np.array([9, 1, 1, 1], np.float32), np.zeros(2, "f4")
    fill(values, residual, 1, 3, block)
    assert block.tolist() == [2, -3]
    fill(values, residual[:0], 1, 3, block)
    assert block.tolist() == [1, -4]


def test_the_largest_shows_what_is_not_finite() -> None:
    block = np.array([2, -3, np.inf, np.nan], np.float64)
    assert [peak(block, length) for length in (1, 2, 3)] == [2, 3, np.inf]
    assert np.isnan(peak(block, 4))


def test_what_is_not_finite_is_mended_and_marked() -> None:
    block, is_bad = np.array([1, np.inf, np.nan, 5], np.float32), np.zeros(4, np.bool_)
    assert mend(block, 3, is_bad) == 2
    assert block.tolist() == [1, 0, 0, 5]
    assert is_bad.tolist() == [False, True, True, False]
