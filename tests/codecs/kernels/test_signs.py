"""Signs and means."""

import numpy as np

from weft.codecs.kernels.signs import careful_mean, leave, pack_signs, stand_in, sums


def test_eight_signs_are_a_byte_and_the_first_is_the_lowest_bit() -> None:
    block, packed = np.array([1, -1, 0, -3, 5, -1, 7, 8, 1], np.float32), np.zeros(3, np.uint8)
    pack_signs(block, 9, packed, 1)
    assert packed.tolist() == [0, 0b11010101, 1]


def test_sums_and_means_of_both_kinds() -> None:
    block = np.array([1, -2, 3, -4, 99], np.float64)
    assert sums(block, 4) == (-2, 4, -6, 2)
    assert careful_mean(block, 4, True) == 2
    assert careful_mean(block, 4, False) == -3
    block[0] = np.nan
    assert np.isnan(sums(block, 4)[0])


def test_what_signs_do_not_say_is_left() -> None:
    residual = np.zeros(2)
    leave(np.array([3.0, -1.0]), 2.0, -4.0, residual)
    assert residual.tolist() == [1, 3]


def test_the_residual_stands_in_for_what_is_not_finite() -> None:
    block = np.array([np.nan, 2.0])
    assert stand_in(block, 2, np.array([9.0, 5.0, 6.0]), 1) == 1
    assert block.tolist() == [5, 2]
    block = np.array([np.inf])
    assert stand_in(block, 1, np.empty(0), 0) == 1
    assert block.tolist() == [0]
