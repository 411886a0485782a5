"""Numbers of 16 and 8 bits, each block multiplied by a power of two so that its largest fits."""

import math
from typing import Any

import numpy as np

from weft.codecs.casts import BRAIN, HALF
from weft.codecs.codec import Array
from weft.codecs.kernels.compiling import (
    DOUBLE,
    SINGLE,
    Kinds,
    boolean,
    float32,
    int64,
    kernel,
    read,
    shared,
    uint8,
    uint16,
    void,
    written,
)
from weft.codecs.kernels.lanes import bits_of, brain_bits, brain_number, half_bits, half_number, number_of
from weft.codecs.kernels.shared import fill, mend, peak

SPARE = 4
"""A block of halves keeps the power of the one before it if its largest has not this many digits to spare."""


@shared
def power_for(largest: float, kind: int, exponent_min: int, exponent_max: int) -> float:
    """The power of two that lets a block's largest number fit, with as little to spare as can be."""
    if largest == 0 or kind == BRAIN:
        return 1.0
    mantissa, exponent = math.frexp(float(largest))
    wanted = 15 - exponent
    if kind != HALF:
        wanted = 9 - exponent if mantissa <= 0.875 else 8 - exponent
    return math.ldexp(1.0, min(max(wanted, exponent_min), exponent_max))


@shared
def eight_bits(number: Any) -> Any:
    """e4m3, to nearest even, of a float32 up to 448."""
    bits = bits_of(number)
    size = np.int32(bits & np.int32(0x7FFFFFFF))
    odd = np.int32(np.int32(size >> np.int32(20)) & np.int32(1))
    normal = np.int32(np.int32(np.int32(np.int32(size + np.int32(0x7FFFF)) + odd) >> np.int32(20)) - np.int32(960))
    small = np.int32(np.int32(np.float32(abs(number) * np.float32(512) + np.float32(12582912))) - np.int32(12582912))
    chosen = small if size < np.int32(0x3C800000) else normal
    return np.uint8(np.int32(chosen | np.int32(np.int32(bits >> np.int32(24)) & np.int32(0x80))))


@shared
def narrow(numbers: Array, power: Any, kind: int, doubles: Array, octets: Array, start: int) -> Any:
    """Cast numbers that fit, once multiplied, to nearest even; the largest of them."""
    largest = bits_of(numbers.dtype.type(0))
    doubles, octets = doubles[start : start + numbers.size], octets[start : start + numbers.size]
    if kind == HALF:
        for i in range(numbers.size):
            largest = max(largest, bits_of(abs(numbers[i])))
            doubles[i] = half_bits(np.float32(numbers[i] * power))
    elif kind == BRAIN:
        for i in range(numbers.size):
            largest = max(largest, bits_of(abs(numbers[i])))
            doubles[i] = brain_bits(np.float32(numbers[i]))
    else:
        for i in range(numbers.size):
            octets[i] = eight_bits(np.float32(numbers[i] * power))
    return number_of(largest)


@shared
def cast_block(
    numbers: Array,
    power: Any,
    kind: int,
    highest: float,
    low: int,
    high: int,
    doubles: Array,
    octets: Array,
    start: int,
) -> Any:
    """Cast a block and say by which power; 0 if a number is not finite. A power that was good may be so again."""
    real = numbers.dtype.type
    if kind in (HALF, BRAIN):
        largest = narrow(numbers, power, kind, doubles, octets, start)
        if kind == BRAIN and largest <= highest:
            return real(1)
        if kind == HALF and real(1 << (15 - SPARE)) <= largest * power < real(1 << 15):
            return power
    else:
        largest = peak(numbers, numbers.size)
    if not np.isfinite(largest):
        return real(0)
    power = real(power_for(largest, kind, low, high))
    if largest * power > highest:
        within = np.empty(numbers.size, numbers.dtype)
        for i in range(numbers.size):
            within[i] = min(max(numbers[i] * power, -highest), highest)
        narrow(within, real(1), kind, doubles, octets, start)
    else:
        narrow(numbers, power, kind, doubles, octets, start)
    return power


@shared
def widen(
    doubles: Array, octets: Array, start: int, kind: int, table: Array, factor: Any, into: Array, adds: bool
) -> None:
    """into = factor * the numbers of codes, or is increased by them."""
    real = into.dtype.type
    doubles, octets = doubles[start : start + into.size], octets[start : start + into.size]
    if kind == HALF and adds:
        for i in range(into.size):
            into[i] += real(half_number(doubles[i])) * factor
    elif kind == HALF:
        for i in range(into.size):
            into[i] = real(half_number(doubles[i])) * factor
    elif kind == BRAIN and adds:
        for i in range(into.size):
            into[i] += real(brain_number(doubles[i])) * factor
    elif kind == BRAIN:
        for i in range(into.size):
            into[i] = real(brain_number(doubles[i])) * factor
    elif adds:
        for i in range(into.size):
            into[i] += real(table[octets[i]]) * factor
    else:
        for i in range(into.size):
            into[i] = real(table[octets[i]]) * factor


def _encoding(kinds: Kinds) -> Any:
    real, codes = written(kinds.real), (written(uint16), written(uint8))
    limits = (int64, int64, int64, kinds.real)
    return int64(read(kinds.real), real, real, real, real, *codes, read(float32), *limits)


@kernel(_encoding(SINGLE), _encoding(DOUBLE))
def encode(
    values: Array,
    residual: Array,
    block: Array,
    said: Array,
    powers: Array,
    doubles: Array,
    octets: Array,
    table: Array,
    kind: int,
    exponent_min: int,
    exponent_max: int,
    highest: float,
) -> int:
    """Cast each block; how many numbers were not finite."""
    real = block.dtype.type
    size, num_bad, power = block.size, 0, real(1)
    low, high, is_bad = exponent_min, exponent_max, np.zeros(block.size, np.bool_)
    for index in range(-(-values.size // size)):
        start = index * size
        length = min(start + size, values.size) - start
        before, bad_here = power, 0
        if residual.size:
            fill(values, residual, start, start + length, block)
            power = cast_block(block[:length], before, kind, highest, low, high, doubles, octets, start)
        else:
            here = values[start : start + length]
            power = cast_block(here, before, kind, highest, low, high, doubles, octets, start)
        if power == 0:
            fill(values, residual, start, start + length, block)
            bad_here = mend(block, length, is_bad)
            num_bad += bad_here
            power = cast_block(block[:length], before, kind, highest, low, high, doubles, octets, start)
        if kind != BRAIN:
            powers[index] = power
        if residual.size:
            widen(doubles, octets, start, kind, table, real(real(1) / power), said[:length], False)
            left = residual[start : start + length]
            for i in range(length):
                if not (bad_here and is_bad[i]):
                    left[i] = block[i] - said[i]
    return num_bad


def _adding(kinds: Kinds) -> Any:
    codes = (read(uint16), read(uint8), read(float32))
    return void(read(kinds.real), *codes, written(kinds.real), int64, int64, kinds.real, boolean)


@kernel(_adding(SINGLE), _adding(DOUBLE))
def add(
    powers: Array,
    doubles: Array,
    octets: Array,
    table: Array,
    into: Array,
    size: int,
    kind: int,
    scale: float,
    adds: bool,
) -> None:
    """into += scale * what was cast, or becomes that."""
    real = into.dtype.type
    for start in range(0, into.size, size):
        factor = scale
        if kind != BRAIN:
            factor = real(scale / powers[start // size])
        widen(doubles, octets, start, kind, table, factor, into[start : start + size], adds)
