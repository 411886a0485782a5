"""Codes packed in bytes."""

import numpy as np
import pytest

from weft.codecs.kernels.rounding import leave, pack, put, round_block, unpack
from weft.codecs.rounding import lattice


@pytest.mark.parametrize("width", [2, 4, 8])
def test_codes_come_back_as_they_were_packed(width: int) -> None:
    for length in (1, 3, 4, 5, 64, 67):
        codes = np.random.default_rng(0).integers(1 << width, size=length).astype(np.uint8)
        packed, back = np.full(80, 255, np.uint8), np.zeros(length, np.uint8)
        pack(codes, length, width, packed, 1)
        unpack(packed, 1, length, width, back)
        np.testing.assert_array_equal(back, codes)
        assert packed[0] == 255
        assert (packed[1 + -(-length * width // 8) :] == 255).all()


def test_whole_multiples_are_never_rounded() -> None:
    block, codes = np.array([-7, 0, 3, 7], np.float32), np.zeros(4, np.uint8)
    for key in range(200):
        round_block(block, 4, np.float32(1), 7, lattice(512), np.uint64(key << 33 | key), codes)  # type: ignore[arg-type]
        assert codes.tolist() == [0, 7, 10, 14]


def test_what_codes_say_and_what_they_leave() -> None:
    block, codes, residual = np.array([1.0, -2.0, 5.0]), np.array([2, 0, 200], np.uint8), np.full(3, 9.0)
    leave(block[:2], codes, 1, 1.5, residual[:2], np.array([False, True]), 1)
    assert residual.tolist() == [-0.5, 9, 9]
    put(codes, 1, 1.5, residual, False)
    assert residual.tolist() == [1.5, -1.5, 1.5]
    put(codes, 1, 1.5, residual, True)
    assert residual.tolist() == [3, -3, 3]
