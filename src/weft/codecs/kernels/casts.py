"""Numbers of 16 and 8 bits, each block multiplied by a power of two so that its largest fits."""

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from weft.codecs.casts import BRAIN, HALF
from weft.codecs.codec import Array
from weft.codecs.kernels.compiling import (
    DOUBLE,
    SINGLE,
    Kinds,
    float32,
    int32,
    int64,
    kernel,
    read,
    shared,
    uint8,
    uint16,
    void,
    written,
)
from weft.codecs.kernels.shared import gather, mend


def _half_bits(typing: Any, number: Any) -> Any:
    """The bits of a float32 as the nearest float16."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(builder.fptrunc(arguments[0], ir.HalfType()), ir.IntType(16))

    return uint16(float32), generate


def _half_number(typing: Any, bits: Any) -> Any:
    """The float32 of a float16's bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())

    return float32(uint16), generate


half_bits: Any = intrinsic(_half_bits)
half_number: Any = intrinsic(_half_number)


@shared
def power_for(peak: float, kind: int, exponent_min: int, exponent_max: int) -> float:
    """The power of two that lets a block's largest number fit, with as little to spare as can be."""
    if peak == 0 or kind == BRAIN:
        return 1.0
    mantissa, exponent = math.frexp(float(peak))
    wanted = 15 - exponent
    if kind != HALF:
        wanted = 9 - exponent if mantissa <= 0.875 else 8 - exponent
    return math.ldexp(1.0, min(max(wanted, exponent_min), exponent_max))


@shared
def eight_bits(bits: Any, number: Any) -> Any:
    """e4m3, to nearest even, of a float32 up to 448."""
    size = bits & np.int32(0x7FFFFFFF)
    normal = (np.int32(size + np.int32(0x7FFFF) + ((size >> 20) & 1)) >> 20) - np.int32(120 << 3)
    small = np.int32(np.float32(abs(number) * np.float32(512) + np.float32(12582912))) - np.int32(12582912)
    chosen = small if size < np.int32(0x3C800000) else normal
    return chosen | ((bits >> 24) & np.int32(0x80))


@shared
def narrow(
    single: Array, single_bits: Array, length: int, kind: int, doubles: Array, octets: Array, start: int
) -> None:
    """Cast a block, to nearest even."""
    if kind == HALF:
        for i in range(length):
            doubles[start + i] = half_bits(single[i])
    elif kind == BRAIN:
        for i in range(length):
            bits = single_bits[i]
            size = bits & np.int32(0x7FFFFFFF)
            size = min(np.int32(size + np.int32(0x7FFF) + ((size >> 16) & 1)) >> 16, np.int32(0x7F7F))
            doubles[start + i] = np.uint16(size | ((bits >> 16) & np.int32(0x8000)))
    else:
        for i in range(length):
            octets[start + i] = np.uint8(eight_bits(single_bits[i], single[i]))


@shared
def widen(
    doubles: Array, octets: Array, start: int, length: int, kind: int, table: Array, single: Array, single_bits: Array
) -> None:
    """Numbers of a block from what they were cast to."""
    if kind == HALF:
        for i in range(length):
            single[i] = half_number(doubles[start + i])
    elif kind == BRAIN:
        for i in range(length):
            single_bits[i] = np.int32(doubles[start + i]) << 16
    else:
        for i in range(length):
            single[i] = table[octets[start + i]]


def _scratch(kinds: Kinds) -> Any:
    return written(kinds.real), written(kinds.bits), written(float32), written(int32)


def _encoding(kinds: Kinds) -> Any:
    real, codes = written(kinds.real), (written(uint16), written(uint8))
    return int64(read(kinds.real), real, *_scratch(kinds), real, *codes, read(float32), int64, int64, int64, kinds.real)


@kernel(_encoding(SINGLE), _encoding(DOUBLE))
def encode(
    values: Array,
    residual: Array,
    block: Array,
    bits: Array,
    single: Array,
    single_bits: Array,
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
    size, total, num_bad = block.size, values.size, 0
    infinity = np.array([np.inf], block.dtype).view(bits.dtype)[0]
    is_bad = np.zeros(size, np.bool_)
    kept = np.empty(size, block.dtype)
    for index in range(-(-total // size)):
        start = index * size
        length = min(start + size, total) - start
        largest = gather(values, residual, start, start + length, block, bits)
        bad_here = 0
        if largest >= infinity:
            bad_here = mend(block, length, is_bad)
            num_bad += bad_here
            if residual.size:
                kept[:length] = residual[start : start + length]
        power = real(1)
        if kind != BRAIN:
            peak = real(0)
            for i in range(length):
                peak = max(peak, abs(block[i]))
            power = real(power_for(peak, kind, exponent_min, exponent_max))
            powers[index] = power
        for i in range(length):
            single[i] = np.float32(min(max(block[i] * power, -highest), highest))
        narrow(single, single_bits, length, kind, doubles, octets, start)
        if residual.size:
            widen(doubles, octets, start, length, kind, table, single, single_bits)
            inverse = real(real(1) / power)
            for i in range(length):
                residual[start + i] = block[i] - real(single[i]) * inverse
            if bad_here:
                for i in range(length):
                    if is_bad[i]:
                        residual[start + i] = kept[i]
    return num_bad


def _adding(kinds: Kinds) -> Any:
    scratch = (written(float32), written(int32))
    codes = (read(uint16), read(uint8), read(float32))
    return void(read(kinds.real), *codes, written(kinds.real), *scratch, int64, kinds.real)


@kernel(_adding(SINGLE), _adding(DOUBLE))
def add(
    powers: Array,
    doubles: Array,
    octets: Array,
    table: Array,
    into: Array,
    single: Array,
    single_bits: Array,
    kind: int,
    scale: float,
) -> None:
    """into += scale * what was cast."""
    real = into.dtype.type
    size, total = single.size, into.size
    for index in range(-(-total // size)):
        start = index * size
        length = min(start + size, total) - start
        widen(doubles, octets, start, length, kind, table, single, single_bits)
        inverse = real(1)
        if kind != BRAIN:
            inverse = real(real(1) / powers[index])
        for i in range(length):
            into[start + i] += scale * (real(single[i]) * inverse)
