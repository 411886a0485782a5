"""Stochastic rounding to -1, 0 or 1 times a scale per piece (a tensor, say); four codes of 2 bits in a byte.

Blocks are cut by position, pieces by tensor. Loops go over both, because codes are packed by block.
"""

from typing import Any

import numpy as np

from weft.codecs.codec import Array
from weft.codecs.kernels.compiling import (
    DOUBLE,
    SINGLE,
    Kinds,
    boolean,
    float64,
    int64,
    kernel,
    read,
    reordering,
    uint8,
    uint32,
    uint64,
    void,
    written,
)
from weft.codecs.kernels.rounding import leave, pack, put, round_block, unpack
from weft.codecs.kernels.shared import fill, mend, mixed, peak

WIDTH = 2


@reordering
def squares(block: Array, length: int) -> float:
    """The sum of the squares, in double precision."""
    total = 0.0
    for i in range(length):
        number = np.float64(block[i])
        total += number * number
    return total


def _measuring(kinds: Kinds) -> Any:
    real = written(kinds.real)
    return void(read(kinds.real), real, read(int64), real, real, real, float64)


@kernel(_measuring(SINGLE), _measuring(DOUBLE))
def measure(
    values: Array, residual: Array, bounds: Array, block: Array, limits: Array, peaks: Array, clip: float
) -> None:
    """For each piece: the limit to which it is clipped, `clip` times its root mean square or its largest absolute
    value, if that is smaller. Numbers that are not finite do not count."""
    real = block.dtype.type
    is_bad = np.zeros(block.size, np.bool_)
    for piece in range(peaks.size):
        largest, total, number = real(0), 0.0, bounds[piece + 1] - bounds[piece]
        for start in range(bounds[piece], bounds[piece + 1], block.size):
            length = min(start + block.size, bounds[piece + 1]) - start
            fill(values, residual, start, start + length, block)
            here = peak(block, length)
            if not np.isfinite(here):
                number -= mend(block, length, is_bad)
                here = peak(block, length)
            largest = max(largest, here)
            total += squares(block, length)
        deviation = np.sqrt(total / max(number, 1))
        limit = largest
        if deviation > 0 and clip * deviation < largest:
            limit = real(clip * deviation)
        limits[piece] = limit
        peaks[piece] = limit


def _encoding(kinds: Kinds) -> Any:
    real = written(kinds.real)
    scratch = (real, real, written(uint8), read(uint32))
    return int64(
        read(kinds.real), real, read(int64), *scratch, read(kinds.real), read(kinds.real), written(uint8), uint64
    )


@kernel(_encoding(SINGLE), _encoding(DOUBLE))
def encode(
    values: Array,
    residual: Array,
    bounds: Array,
    block: Array,
    clipped: Array,
    codes: Array,
    lattice: Array,
    limits: Array,
    scales: Array,
    packed: Array,
    draw: np.uint64,
) -> int:
    """Round each piece, clipped to its limit, to -1, 0 or 1 times its scale; returns how many were not finite."""
    real = block.dtype.type
    size, num_bad, piece = block.size, 0, 0
    is_bad = np.zeros(size, np.bool_)
    for first in range(0, values.size, size):
        last = min(first + size, values.size)
        start = first
        while start < last:
            length = min(last, bounds[piece + 1]) - start
            bad_here = 0
            fill(values, residual, start, start + length, block)
            if not np.isfinite(peak(block, length)):
                bad_here = mend(block, length, is_bad)
                num_bad += bad_here
            scale = scales[piece]
            limit = min(limits[piece], scale)
            inverse = real(0)
            if scale > 0:
                inverse = min(real(real(1) / scale), np.finfo(block.dtype).max)  # 1 / subnormal is inf
            for i in range(length):
                clipped[i] = min(max(block[i], -limit), limit)
            key = mixed(np.uint64(draw + np.uint64(start)))
            place = start - first
            round_block(clipped, length, inverse, 1, lattice, key, codes[place:])
            if residual.size:
                leave(block, codes[place:], 1, scale, residual[start : start + length], is_bad, bad_here)
            start += length
            piece += start == bounds[piece + 1]
        pack(codes, last - first, WIDTH, packed, first * WIDTH // 8)
    return num_bad


def _adding(kinds: Kinds) -> Any:
    return void(read(kinds.real), read(uint8), read(int64), written(kinds.real), written(uint8), kinds.real, boolean)


@kernel(_adding(SINGLE), _adding(DOUBLE))
def add(scales: Array, packed: Array, bounds: Array, into: Array, codes: Array, factor: float, adds: bool) -> None:
    """into += factor * decoded numbers (`adds`), or into = that."""
    real = into.dtype.type
    size, piece = codes.size, 0
    for first in range(0, into.size, size):
        last = min(first + size, into.size)
        unpack(packed, first * WIDTH // 8, last - first, WIDTH, codes)
        start = first
        while start < last:
            stop = min(last, bounds[piece + 1])
            put(codes[start - first :], 1, real(factor * scales[piece]), into[start:stop], adds)
            start = stop
            piece += start == bounds[piece + 1]
