"""Casts of blocks."""

import numpy as np
import pytest

from weft.codecs.casts import BRAIN, EIGHT, HALF, eights
from weft.codecs.kernels.casts import narrow, power_for, widen


def test_halves_are_those_of_numpy() -> None:
    single = np.random.default_rng(0).standard_normal(1000).astype(np.float32) * np.float32(1e-3)
    doubles, back = np.zeros(1000, np.uint16), np.zeros(1000, np.float32)
    narrow(single, single.view(np.int32), 1000, HALF, doubles, np.zeros(0, np.uint8), 0)
    np.testing.assert_array_equal(doubles, single.astype(np.float16).view(np.uint16))
    widen(doubles, np.zeros(0, np.uint8), 0, 1000, HALF, eights(), back, back.view(np.int32))
    np.testing.assert_array_equal(back, single.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize(("peak", "power"), [(1.0, 2.0**14), (0.99, 2.0**15), (65536.0, 0.25), (0.0, 1.0)])
def test_the_largest_is_brought_below_two_to_the_fifteenth(peak: float, power: float) -> None:
    assert power_for(np.float32(peak), HALF, -112, 126) == power
    assert power_for(np.float32(peak), BRAIN, -112, 126) == 1


@pytest.mark.parametrize(("peak", "power"), [(448.0, 1.0), (449.0, 0.5), (0.875, 512.0), (1e-45, 2.0**126)])
def test_the_largest_is_brought_to_448_at_most(peak: float, power: float) -> None:
    assert power_for(np.float32(peak), EIGHT, -119, 126) == power
