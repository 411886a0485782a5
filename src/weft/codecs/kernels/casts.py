"""Casts to float16, bfloat16 and 8 bits (e4m3). Blocks are multiplied by powers of two, so that their largest fit.

A power of two changes only exponents: multiplying and dividing again loses nothing, unless a number becomes subnormal.
"""

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
from weft.codecs.kernels.lanes import bits_of, brain_bits, brain_number, half_bits, half_number, number_of, part
from weft.codecs.kernels.shared import fill, mend, peak

SPARE = 4
"""A block of float16 keeps the power of the block before if its largest is within SPARE binary digits of the limit."""


@shared
def power_for(largest: float, kind: int, exponent_min: int, exponent_max: int) -> float:
    """The largest power of two with which a block's largest number still fits the range of `kind`."""
    if largest == 0 or kind == BRAIN:
        return 1.0
    mantissa, exponent = math.frexp(float(largest))
    wanted = 15 - exponent  # frexp: largest < 2**exponent, so that the product is below 2**15
    if kind != HALF:
        wanted = 9 - exponent if mantissa <= 0.875 else 8 - exponent  # e4m3 ends at 448 = 0.875 * 2**9
    return math.ldexp(1.0, min(max(wanted, exponent_min), exponent_max))


@shared
def eight_bits(number: Any) -> Any:
    """The e4m3 code of a float32 of at most 448, rounded to nearest even. Both cases are computed and one is selected,
    so that loops over it have no branch."""
    bits = bits_of(number)
    size = np.int32(bits & np.int32(0x7FFFFFFF))
    # Normal: add half a unit of the 20 bits that are dropped, minus one unless the kept part is odd: ties to even.
    # 960 = (127 - 7) << 3 moves the exponent's bias from float32's to e4m3's, which has 3 bits of mantissa.
    odd = np.int32(np.int32(size >> np.int32(20)) & np.int32(1))
    normal = np.int32(np.int32(np.int32(np.int32(size + np.int32(0x7FFFF)) + odd) >> np.int32(20)) - np.int32(960))
    # Subnormal (below 2**-6): multiples of 2**-9. Adding 1.5 * 2**23, where float32 has no fractions, rounds to nearest
    # even; the subtraction leaves the rounded number.
    small = np.int32(np.int32(np.float32(abs(number) * np.float32(512) + np.float32(12582912))) - np.int32(12582912))
    chosen = small if size < np.int32(0x3C800000) else normal
    return np.uint8(np.int32(chosen | np.int32(np.int32(bits >> np.int32(24)) & np.int32(0x80))))


@shared
def narrow(numbers: Array, power: Any, kind: int, doubles: Array, octets: Array, start: int) -> Any:
    """Cast numbers times `power`, which must fit, to nearest even; the largest absolute value before (16 bits only).

    One loop per kind, so that no loop has a branch.
    """
    largest = bits_of(numbers.dtype.type(0))
    doubles, octets = part(doubles, start, start + numbers.size), part(octets, start, start + numbers.size)
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
    """Cast a block; returns the power of two it was multiplied by, or 0 if a number is not finite.

    16 bits: the block is cast with the last block's power at once, and its largest found in the same pass. Only if that
    power does not fit this block is it cast again. 8 bits: the largest is found first.
    """
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
        # the power was limited by exponent_min, or is 1 (bfloat16): clip what does not fit
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
    """into = factor * decoded numbers or, if `adds`, into += that. One loop per case, so that no loop has a branch."""
    real = into.dtype.type
    doubles, octets = part(doubles, start, start + into.size), part(octets, start, start + into.size)
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
    """Cast values + residual block by block; returns how many numbers were not finite.

    `block` and `said` are scratch of a block's size. `residual` becomes what the cast left out, except where a number
    was not finite: there it stays.
    """
    real = block.dtype.type
    size, num_bad, power = block.size, 0, real(1)
    low, high, is_bad = exponent_min, exponent_max, np.zeros(block.size, np.bool_)
    for index in range(-(-values.size // size)):
        start = index * size
        length = min(start + size, values.size) - start
        before, bad_here = power, 0
        if residual.size:
            fill(values, residual, start, start + length, block)
            power = cast_block(part(block, 0, length), before, kind, highest, low, high, doubles, octets, start)
        else:
            here = part(values, start, start + length)
            power = cast_block(here, before, kind, highest, low, high, doubles, octets, start)
        if power == 0:  # rare: cast again with 0 in place of numbers that are not finite
            fill(values, residual, start, start + length, block)
            bad_here = mend(block, length, is_bad)
            num_bad += bad_here
            power = cast_block(part(block, 0, length), before, kind, highest, low, high, doubles, octets, start)
        if kind != BRAIN:
            powers[index] = power
        if residual.size:
            widen(doubles, octets, start, kind, table, real(real(1) / power), part(said, 0, length), False)
            left = part(residual, start, start + length)
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
    """into += scale * decoded numbers (`adds`), or into = that; the powers of two are divided out."""
    real = into.dtype.type
    for start in range(0, into.size, size):
        factor = scale
        if kind != BRAIN:
            factor = real(scale / powers[start // size])
        widen(doubles, octets, start, kind, table, factor, part(into, start, min(start + size, into.size)), adds)
