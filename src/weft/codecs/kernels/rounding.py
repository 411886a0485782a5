"""Stochastic rounding of blocks to whole steps, and codes of 2, 4 or 8 bits packed in bytes."""

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
    shared,
    uint8,
    uint32,
    uint64,
    void,
    written,
)
from weft.codecs.kernels.shared import gather, mend, mixed


@shared
def pack(codes: Array, length: int, width: int, packed: Array, start: int) -> None:
    """Codes of `width` bits, the first in the lowest; what is missing of the last byte is 0."""
    each = 8 // width
    whole = length // each
    if width == 4:
        for i in range(whole):
            packed[start + i] = codes[2 * i] | (codes[2 * i + 1] << np.uint8(4))
    elif width == 2:
        for i in range(whole):
            low = codes[4 * i] | (codes[4 * i + 1] << np.uint8(2))
            packed[start + i] = low | (codes[4 * i + 2] << np.uint8(4)) | (codes[4 * i + 3] << np.uint8(6))
    else:
        for i in range(whole):
            packed[start + i] = codes[i]
    if whole * each < length:
        packed[start + whole] = 0
        for i in range(whole * each, length):
            packed[start + whole] |= np.uint8(codes[i] << np.uint8((i - whole * each) * width))


@shared
def unpack(packed: Array, start: int, length: int, width: int, codes: Array) -> None:
    """What `pack` packed."""
    each = 8 // width
    whole = length // each
    mask = np.uint8((1 << width) - 1)
    if width == 4:
        for i in range(whole):
            byte = packed[start + i]
            codes[2 * i] = byte & mask
            codes[2 * i + 1] = byte >> np.uint8(4)
    elif width == 2:
        for i in range(whole):
            byte = packed[start + i]
            codes[4 * i] = byte & mask
            codes[4 * i + 1] = (byte >> np.uint8(2)) & mask
            codes[4 * i + 2] = (byte >> np.uint8(4)) & mask
            codes[4 * i + 3] = byte >> np.uint8(6)
    else:
        for i in range(whole):
            codes[i] = packed[start + i]
    for i in range(whole * each, length):
        codes[i] = (packed[start + whole] >> np.uint8((i - whole * each) * width)) & mask


@shared
def round_block(
    block: Array, length: int, inverse: float, middle: int, lattice: Array, key: np.uint64, codes: Array
) -> None:
    """codes = middle + block * inverse, rounded down or up: the nearer the likelier, so that the mean is right."""
    real = block.dtype.type
    first = np.uint32(key)
    second = np.uint32(key >> np.uint64(32))
    unit = real(2.0**-24)
    offset = real(middle)
    top = np.int32(2 * middle)
    for i in range(length):
        drawn = np.uint32(np.uint32(lattice[i] ^ first) * np.uint32(0x7FEB352D))
        drawn = np.uint32(np.uint32(drawn ^ (drawn >> np.uint32(15)) ^ second) * np.uint32(0x846CA68B))
        share = real(np.int32(np.uint32(drawn ^ (drawn >> np.uint32(16))) >> np.uint32(8))) * unit
        code = np.int32(block[i] * inverse + offset + share)
        codes[i] = np.uint8(min(max(code, np.int32(0)), top))


def _encoding(kinds: Kinds) -> Any:
    real, bits = written(kinds.real), written(kinds.bits)
    scratch = (real, bits, written(uint8), read(uint32))
    return int64(read(kinds.real), real, *scratch, real, written(uint8), int64, int64, kinds.real, uint64)


@kernel(_encoding(SINGLE), _encoding(DOUBLE))
def encode(
    values: Array,
    residual: Array,
    block: Array,
    bits: Array,
    codes: Array,
    lattice: Array,
    steps: Array,
    packed: Array,
    levels: int,
    width: int,
    step_max: float,
    draw: np.uint64,
) -> int:
    """Round each block to steps of its largest / levels; how many numbers were not finite."""
    real = block.dtype.type
    size, total, num_bad = block.size, values.size, 0
    infinity = np.array([np.inf], block.dtype).view(bits.dtype)[0]
    is_bad = np.zeros(size, np.bool_)
    kept = np.empty(size, block.dtype)
    for index in range(steps.size):
        start = index * size
        stop = min(start + size, total)
        length = stop - start
        largest = gather(values, residual, start, stop, block, bits)
        bad_here = 0
        if largest >= infinity:
            bad_here = mend(block, length, is_bad)
            num_bad += bad_here
            if residual.size:
                kept[:length] = residual[start:stop]
        peak = real(0)
        for i in range(length):
            peak = max(peak, abs(block[i]))
        step = min(real(peak / real(levels)), step_max)
        inverse = real(0)
        if step > 0:
            inverse = min(real(real(1) / step), np.finfo(block.dtype).max)
        steps[index] = step
        round_block(block, length, inverse, levels, lattice, mixed(np.uint64(draw + np.uint64(index))), codes)
        pack(codes, length, width, packed, start * width // 8)
        if residual.size:
            middle = np.int32(levels)
            for i in range(length):
                residual[start + i] = block[i] - real(np.int32(codes[i]) - middle) * step
            if bad_here:
                for i in range(length):
                    if is_bad[i]:
                        residual[start + i] = kept[i]
    return num_bad


def _adding(kinds: Kinds) -> Any:
    return void(read(kinds.real), read(uint8), written(kinds.real), written(uint8), int64, int64, kinds.real)


@kernel(_adding(SINGLE), _adding(DOUBLE))
def add(steps: Array, packed: Array, into: Array, codes: Array, levels: int, width: int, scale: float) -> None:
    """into += scale * what the codes say."""
    real = into.dtype.type
    size = codes.size
    middle, top = np.int32(levels), np.int32(2 * levels)
    for index in range(steps.size):
        start = index * size
        stop = min(start + size, into.size)
        unpack(packed, start * width // 8, stop - start, width, codes)
        step = real(steps[index] * scale)
        for i in range(stop - start):
            into[start + i] += real(min(np.int32(codes[i]), top) - middle) * step
