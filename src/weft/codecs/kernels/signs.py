"""One bit for each number (its sign), eight to a byte, and two means per block: of numbers >= 0, and of those below."""

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
    """Replace numbers that are not finite by their residual alone, as if the value were 0; how many there are."""
    number = 0
    for i in range(length):
        if not np.isfinite(block[i]):
            block[i] = residual[start + i] if residual.size else 0
            number += 1
    return number


@shared
def pack_signs(block: Array, length: int, packed: Array, start: int) -> None:
    """Pack signs: bit 1 for numbers >= 0, the first number in the lowest bit. Eight at a time by `lanes.signs`."""
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
    """Sums of all numbers, of those >= 0, of those below, and the number of those >= 0.

    The sum of all is for finding inf and NaN in the same pass: max and min would hide NaN. Branch-free, so that the
    loop is vectorised; hence the count is a float.
    """
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
    """The mean of the numbers >= 0, or of those below, by a running mean, where their sum has overflowed."""
    mean, number = block.dtype.type(0), 0
    for i in range(length):
        if (block[i] >= 0) == is_high:
            number += 1
            mean += block.dtype.type((block[i] - mean) / number)
    return mean


@shared
def leave(block: Array, high: float, low: float, residual: Array) -> None:
    """residual = block - decoded signs."""
    for i in range(block.size):
        residual[i] = block[i] - (high if block[i] >= 0 else low)


def _encoding(kinds: Kinds) -> Any:
    real = written(kinds.real)
    return int64(read(kinds.real), real, real, real, written(uint8))


@kernel(_encoding(SINGLE), _encoding(DOUBLE))
def encode(values: Array, residual: Array, block: Array, means: Array, packed: Array) -> int:
    """Encode signs, and two means per block; with an empty `means`, signs stand for 1 and -1.

    Returns how many numbers were not finite.
    """
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
    """into += scale * decoded signs (`adds`), or into = that; with an empty `means`, signs stand for 1 and -1."""
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
