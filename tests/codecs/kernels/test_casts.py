"""Casts of blocks."""

import numpy as np
import pytest

from weft.codecs.casts import BRAIN, EIGHT, HALF, eights
from weft.codecs.kernels.casts import cast_block, narrow, power_for, widen


@pytest.mark.parametrize("adds", [False, True])
def test_halves_are_those_of_numpy(adds: bool) -> None:
    single = np.random.default_rng(0).standard_normal(1000).astype(np.float32) * np.float32(1e-3)
    doubles, octets, back = np.zeros(1000, np.uint16), np.zeros(0, np.uint8), np.ones(1000, np.float32)
    largest = narrow(single, np.float32(2), HALF, doubles, octets, 0)
    halves = (2 * single).astype(np.float16)
    assert largest == np.abs(single).max()
    np.testing.assert_array_equal(doubles, halves.view(np.uint16))
    widen(doubles, octets, 0, HALF, eights(), np.float32(0.5), back, adds)
    np.testing.assert_array_equal(back, halves.astype(np.float32) / 2 + np.float32(adds))


def test_a_power_that_was_good_is_good_again_and_one_that_was_not_is_found() -> None:
    numbers, doubles, octets = np.array([1.0, 0.5], np.float32), np.zeros(2, np.uint16), np.zeros(0, np.uint8)
    for before, power in ((2.0**13, 2.0**13), (2.0**11, 2.0**11), (2.0**10, 2.0**14), (2.0**15, 2.0**14)):
        found = cast_block(numbers, np.float32(before), HALF, np.float32(65504), -112, 126, doubles, octets, 0)  # type: ignore[arg-type]
        assert found == power
        assert doubles.view(np.float16).tolist() == [power, power / 2]
    numbers[0] = np.inf
    assert cast_block(numbers, np.float32(1), HALF, np.float32(65504), -112, 126, doubles, octets, 0) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize(("peak", "power"), [(1.0, 2.0**14), (0.99, 2.0**15), (65536.0, 0.25), (0.0, 1.0)])
def test_the_largest_is_brought_below_two_to_the_fifteenth(peak: float, power: float) -> None:
    assert power_for(np.float32(peak), HALF, -112, 126) == power  # type: ignore[arg-type]
    assert power_for(np.float32(peak), BRAIN, -112, 126) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize(("peak", "power"), [(448.0, 1.0), (449.0, 0.5), (0.875, 512.0), (1e-45, 2.0**126)])
def test_the_largest_is_brought_to_448_at_most(peak: float, power: float) -> None:
    assert power_for(np.float32(peak), EIGHT, -119, 126) == power  # type: ignore[arg-type]
