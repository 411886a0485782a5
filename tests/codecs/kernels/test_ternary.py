"""Scales of pieces."""

import numpy as np

from weft.codecs.kernels import ternary


def test_a_piece_is_clipped_at_so_many_root_mean_squares() -> None:
    values = np.array([1, 1, 1, 9, 2, 2, np.nan, 0], np.float64)
    limits, peaks = np.zeros((2, 2))
    block = np.zeros(2048)
    ternary.measure(values, np.empty(0), np.array([0, 4, 8]), block, limits, peaks, 1.5)
    np.testing.assert_allclose(limits, [1.5 * np.sqrt(84 / 4), 2])
    np.testing.assert_allclose(peaks, limits)


def test_squares_are_summed_in_double_precision() -> None:
    assert ternary.squares(np.full(4, 1e30, np.float32), 2) == 2 * float(np.float32(1e30)) ** 2
