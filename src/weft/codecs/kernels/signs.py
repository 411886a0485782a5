"""One bit for each number, eight to a byte, and the means of the two kinds of a block."""

from typing import Any

import numpy as np

from weft.codecs.codec import Array
from weft.codecs.kernels.compiling import (
    DOUBLE,
    SINGLE,
    Kinds,
    int64,
    kernel,
    read,
    reordering,
    shared,
    uint8,
    uint64,
    void,
    written,
)
from weft.codecs.kernels.shared import gather

GATHERING_BITS = np.uint64(0x0102040810204080)
"""Eight bytes of 0 or 1, times this: the highest byte has the first as its lowest bit, and so on."""


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
def pack_signs(block: Array, length: int, flags: Array, eights: Array, packed: Array, start: int) -> int:
    """A bit of 1 for every number from 0 on; how many there are. `eights` is the memory of `flags`."""
    for i in range(length):
        flags[i] = block[i] >= 0
    number = np.int32(0)
    for i in range(length):
        number += np.int32(flags[i])
    for i in range(length, -(-length // 8) * 8):
        flags[i] = 0
    for i in range(-(-length // 8)):
        packed[start + i] = np.uint8(np.uint64(eights[i] * GATHERING_BITS) >> np.uint64(56))
    return int(number)


@reordering
def sums(block: Array, length: int) -> tuple[float, float]:
    """Of the numbers from 0 on, and of those below."""
    zero = block.dtype.type(0)
    high, low = zero, zero
    for i in range(length):
        high += max(block[i], zero)
        low += min(block[i], zero)
    return high, low


@shared
def careful_mean(block: Array, length: int, is_high: bool) -> Any:
    """The mean of one kind where the sum is too large."""
    mean, number = block.dtype.type(0), 0
    for i in range(length):
        if (block[i] >= 0) == is_high:
            number += 1
            mean += block.dtype.type((block[i] - mean) / number)
    return mean


def _encoding(kinds: Kinds) -> Any:
    real, octets = written(kinds.real), written(uint8)
    scratch = (real, written(kinds.bits), octets, written(uint64))
    return int64(read(kinds.real), real, *scratch, real, octets)


@kernel(_encoding(SINGLE), _encoding(DOUBLE))
def encode(
    values: Array,
    residual: Array,
    block: Array,
    bits: Array,
    flags: Array,
    eights: Array,
    means: Array,
    packed: Array,
) -> int:
    """Signs, and two means for each block, or none: then a sign stands for 1. How many numbers were not finite."""
    real = block.dtype.type
    size, total, num_bad = block.size, values.size, 0
    infinity = np.array([np.inf], block.dtype).view(bits.dtype)[0]
    for index in range(-(-total // size)):
        start = index * size
        stop = min(start + size, total)
        length = stop - start
        if gather(values, residual, start, stop, block, bits) >= infinity:
            num_bad += stand_in(block, length, residual, start)
        num_high = pack_signs(block, length, flags, eights, packed, start // 8)
        high, low = real(1), real(-1)
        if means.size:
            high, low = sums(block, length)
            high, low = real(high / real(max(num_high, 1))), real(low / real(max(length - num_high, 1)))
            if not np.isfinite(high):
                high = careful_mean(block, length, True)
            if not np.isfinite(low):
                low = careful_mean(block, length, False)
            means[2 * index] = high
            means[2 * index + 1] = low
        if residual.size:
            for i in range(length):
                residual[start + i] = block[i] - (high if block[i] >= 0 else low)
    return num_bad


def _adding(kinds: Kinds) -> Any:
    return void(read(kinds.real), read(uint8), written(kinds.real), int64, kinds.real)


@kernel(_adding(SINGLE), _adding(DOUBLE))
def add(means: Array, packed: Array, into: Array, size: int, scale: float) -> None:
    """into += scale * what the signs say; without means, a sign stands for 1."""
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
            byte = np.int32(packed[start // 8 + i])
            for j in range(8):
                into[start + 8 * i + j] += high if (byte >> j) & 1 else low
        for i in range(8 * whole, stop - start):
            into[start + i] += high if (packed[(start + i) // 8] >> np.uint8(i % 8)) & 1 else low
