"""One bit for each number, eight to a byte, and the means of the two kinds of a block."""

from typing import Any

import numpy as np

from weft.codecs.codec import Array
from weft.codecs.kernels.compiling import (
    DOUBLE,
    SINGLE,
    Kinds,
    boolean,
    int64,
    kernel,
    read,
    reordering,
    shared,
    uint8,
    void,
    written,
)
from weft.codecs.kernels.lanes import put_signs, signs
from weft.codecs.kernels.shared import fill


@shared
def stand_in(block: Array, length: int, residual: Array, start: int) -> int:
    """Where a number is not finite, its value counts as 0: what is left is its residual."""
    number = 0
    for i in range(length):
        if not np.isfinite(block[i]):
            block[i] = residual[start + i] if residual.size else 0
            number += 1
    return number


@shared
def pack_signs(block: Array, length: int, packed: Array, start: int) -> None:
    """A bit of 1 for every number from 0 on, the first in the lowest."""
    whole = length // 8
    here = packed[start : start + -(-length // 8)]
    for i in range(whole):
        here[i] = signs(block, 8 * i)
    if 8 * whole < length:
        here[whole] = 0
        for i in range(8 * whole, length):
            here[whole] |= np.uint8(np.uint8(block[i] >= 0) << np.uint8(i % 8))


@reordering
def sums(block: Array, length: int) -> tuple[float, float, float, float]:
    """Of all numbers, of those from 0 on, of those below, and how many the second are. The first shows infinities."""
    zero = block.dtype.type(0)
    total, high, low, number = zero, zero, zero, zero
    for i in range(length):
        total += block[i]
        high += max(block[i], zero)
        low += min(block[i], zero)
        number += block.dtype.type(block[i] >= zero)
    return total, high, low, number


@shared
def careful_mean(block: Array, length: int, is_high: bool) -> Any:
    """The mean of one kind where the sum is too large."""
    mean, number = block.dtype.type(0), 0
    for i in range(length):
        if (block[i] >= 0) == is_high:
            number += 1
            mean += block.dtype.type((block[i] - mean) / number)
    return mean


@shared
def leave(block: Array, high: float, low: float, residual: Array) -> None:
    """What the signs do not say."""
    for i in range(block.size):
        residual[i] = block[i] - (high if block[i] >= 0 else low)


def _encoding(kinds: Kinds) -> Any:
    real = written(kinds.real)
    return int64(read(kinds.real), real, real, real, written(uint8))


@kernel(_encoding(SINGLE), _encoding(DOUBLE))
def encode(values: Array, residual: Array, block: Array, means: Array, packed: Array) -> int:
    """Signs, and two means for each block, or none: then a sign stands for 1. How many numbers were not finite."""
    real = block.dtype.type
    size, num_bad = block.size, 0
    for index in range(-(-values.size // size)):
        start = index * size
        stop = min(start + size, values.size)
        length = stop - start
        fill(values, residual, start, stop, block)
        total, high, low, number = sums(block, length)
        if not np.isfinite(total):
            num_bad += stand_in(block, length, residual, start)
            total, high, low, number = sums(block, length)
        pack_signs(block, length, packed, start // 8)
        if means.size:
            high, low = real(high / max(number, real(1))), real(low / max(real(length) - number, real(1)))
            if not np.isfinite(high):
                high = careful_mean(block, length, True)
            if not np.isfinite(low):
                low = careful_mean(block, length, False)
            means[2 * index] = high
            means[2 * index + 1] = low
        else:
            high, low = real(1), real(-1)
        if residual.size:
            leave(block[:length], high, low, residual[start:stop])
    return num_bad


def _adding(kinds: Kinds) -> Any:
    return void(read(kinds.real), read(uint8), written(kinds.real), int64, kinds.real, boolean)


@kernel(_adding(SINGLE), _adding(DOUBLE))
def add(means: Array, packed: Array, into: Array, size: int, scale: float, adds: bool) -> None:
    """into += scale * what the signs say, or becomes that; without means, a sign stands for 1."""
    real = into.dtype.type
    total = into.size
    for index in range(-(-total // size)):
        start = index * size
        stop = min(start + size, total)
        high, low = real(scale), real(-scale)
        if means.size:
            high, low = real(scale * means[2 * index]), real(scale * means[2 * index + 1])
        whole = (stop - start) // 8
        for i in range(whole):
            put_signs(into, start + 8 * i, packed[start // 8 + i], high, low, adds)
        for i in range(start + 8 * whole, stop):
            said = high if (packed[i // 8] >> np.uint8(i % 8)) & 1 else low
            into[i] = into[i] + said if adds else said
