"""What several kernels are made of."""

import numpy as np

from weft.codecs.kernels.shared import gather, mend, mixed
from weft.codecs.randomk import mixed as mixed_in_numpy


def test_numbers_are_mixed_as_in_numpy() -> None:
    with np.errstate(over="ignore"):
        assert mixed(np.uint64(7)) == mixed_in_numpy(np.array([7], np.uint64))[0]


def test_a_block_is_values_and_residual_and_its_largest_orders_as_integers_do() -> None:
    values, residual, block = np.array([9, 1, -4, 2], np.float32), np.array([9, 1, 1, 1], np.float32), np.zeros(2, "f4")
    largest = gather(values, residual, 1, 3, block, block.view(np.int32))
    assert block.tolist() == [2, -3]
    assert largest == np.array([3], np.float32).view(np.int32)[0]
    values[2] = np.nan
    assert gather(values, residual[:0], 1, 3, block, block.view(np.int32)) > np.array([np.inf], "f4").view(np.int32)[0]


def test_what_is_not_finite_is_mended_and_marked() -> None:
    block, is_bad = np.array([1, np.inf, np.nan, 5], np.float32), np.zeros(4, np.bool_)
    assert mend(block, 3, is_bad) == 2
    assert block.tolist() == [1, 0, 0, 5]
    assert is_bad.tolist() == [False, True, True, False]
