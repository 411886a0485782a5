"""Signs and means."""

import numpy as np

from weft.codecs.kernels.signs import careful_mean, pack_signs, stand_in, sums


def test_eight_signs_are_a_byte_and_those_from_zero_on_are_counted() -> None:
    block, flags, packed = (
        np.array([1, -1, 0, -3, 5, -1, 7, 8, 1], np.float32),
        np.ones(16, np.uint8),
        np.zeros(3, "u1"),
    )
    assert pack_signs(block, 9, flags, flags.view(np.uint64), packed, 1) == 6
    assert packed.tolist() == [0, 0b11010101, 1]


def test_sums_and_means_of_both_kinds() -> None:
    block = np.array([1, -2, 3, -4, 99], np.float64)
    assert sums(block, 4) == (4, -6)
    assert careful_mean(block, 4, True) == 2
    assert careful_mean(block, 4, False) == -3


def test_the_residual_stands_in_for_what_is_not_finite() -> None:
    block = np.array([np.nan, 2.0])
    assert stand_in(block, 2, np.array([9.0, 5.0, 6.0]), 1) == 1
    assert block.tolist() == [5, 2]
    block = np.array([np.inf])
    assert stand_in(block, 1, np.empty(0), 0) == 1
    assert block.tolist() == [0]
