"""Stochastic rounding of blocks to whole steps, and codes of 2, 4 or 8 bits packed in bytes.

Random numbers are counter-based: a hash of the position in the block (`lattice`) and of a key per block. So the same
draw gives the same codes, and the loop carries no state from one number to the next.
"""

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
    shared,
    uint8,
    uint32,
    uint64,
    void,
    written,
)
from weft.codecs.kernels.shared import fill, mend, mixed, peak


@shared
def pack(codes: Array, length: int, width: int, packed: Array, start: int) -> None:
    """Pack codes of `width` bits, the first in the lowest bits; unused bits of the last byte are 0."""
    each = 8 // width
    whole = length // each
    packed = packed[start : start + -(-length // each)]
    if width == 4:
        for i in range(whole):
            packed[i] = codes[2 * i] | (codes[2 * i + 1] << np.uint8(4))
    elif width == 2:
        for i in range(whole):
            low = codes[4 * i] | (codes[4 * i + 1] << np.uint8(2))
            packed[i] = low | (codes[4 * i + 2] << np.uint8(4)) | (codes[4 * i + 3] << np.uint8(6))
    else:
        for i in range(whole):
            packed[i] = codes[i]
    if whole * each < length:
        packed[whole] = 0
        for i in range(whole * each, length):
            packed[whole] |= np.uint8(codes[i] << np.uint8((i - whole * each) * width))


@shared
def unpack(packed: Array, start: int, length: int, width: int, codes: Array) -> None:
    """Unpack `length` codes of `width` bits from byte `start` on."""
    each = 8 // width
    whole = length // each
    packed = packed[start : start + -(-length // each)]
    mask = np.uint8((1 << width) - 1)
    if width == 4:
        for i in range(whole):
            byte = packed[i]
            codes[2 * i] = byte & mask
            codes[2 * i + 1] = byte >> np.uint8(4)
    elif width == 2:
        for i in range(whole):
            byte = packed[i]
            codes[4 * i] = byte & mask
            codes[4 * i + 1] = (byte >> np.uint8(2)) & mask
            codes[4 * i + 2] = (byte >> np.uint8(4)) & mask
            codes[4 * i + 3] = byte >> np.uint8(6)
    else:
        for i in range(whole):
            codes[i] = packed[i]
    for i in range(whole * each, length):
        codes[i] = (packed[whole] >> np.uint8((i - whole * each) * width)) & mask


@shared
def round_block(
    block: Array, length: int, inverse: float, middle: int, lattice: Array, key: np.uint64, codes: Array
) -> None:
    """codes = middle + block * inverse, rounded stochastically, so that the expected value is exact.

    That is floor(x + u) with u uniform in [0, 1). `middle` makes x positive, so that truncation (int32) is floor.
    """
    real = block.dtype.type
    first = np.uint32(key)
    second = np.uint32(key >> np.uint64(32))
    unit = real(2.0**-24)
    offset = real(middle)
    top = np.int32(2 * middle)
    for i in range(length):
        # a 32-bit hash (multiply, xor-shift); its upper 24 bits are exact in float32, hence unit = 2**-24
        drawn = np.uint32(np.uint32(lattice[i] ^ first) * np.uint32(0x7FEB352D))
        drawn = np.uint32(np.uint32(drawn ^ (drawn >> np.uint32(15)) ^ second) * np.uint32(0x846CA68B))
        share = real(np.int32(np.uint32(drawn ^ (drawn >> np.uint32(16))) >> np.uint32(8))) * unit
        code = np.int32(block[i] * inverse + offset + share)
        codes[i] = np.uint8(min(max(code, np.int32(0)), top))


@shared
def leave(block: Array, codes: Array, middle: int, step: Any, residual: Array, is_bad: Array, num_bad: int) -> None:
    """residual = block - decoded codes; where a number was not finite, the residual stays."""
    real, offset = block.dtype.type, np.int32(middle)
    if num_bad:
        for i in range(residual.size):
            if not is_bad[i]:
                residual[i] = block[i] - real(np.int32(codes[i]) - offset) * step
    else:
        for i in range(residual.size):
            residual[i] = block[i] - real(np.int32(codes[i]) - offset) * step


@shared
def put(codes: Array, middle: int, step: Any, into: Array, adds: bool) -> None:
    """into += decoded codes (`adds`), or into = that. Codes above the highest valid one (a bad payload) count as it."""
    real, offset, top = into.dtype.type, np.int32(middle), np.int32(2 * middle)
    if adds:
        for i in range(into.size):
            into[i] += real(min(np.int32(codes[i]), top) - offset) * step
    else:
        for i in range(into.size):
            into[i] = real(min(np.int32(codes[i]), top) - offset) * step


def _encoding(kinds: Kinds) -> Any:
    real, octets = written(kinds.real), written(uint8)
    return int64(read(kinds.real), real, real, octets, read(uint32), real, octets, int64, int64, kinds.real, uint64)


@kernel(_encoding(SINGLE), _encoding(DOUBLE))
def encode(
    values: Array,
    residual: Array,
    block: Array,
    codes: Array,
    lattice: Array,
    steps: Array,
    packed: Array,
    levels: int,
    width: int,
    step_max: float,
    draw: np.uint64,
) -> int:
    """Round each block to multiples of its largest / levels; returns how many numbers were not finite."""
    real = block.dtype.type
    size, num_bad = block.size, 0
    is_bad = np.zeros(size, np.bool_)
    for index in range(steps.size):
        start = index * size
        length = min(start + size, values.size) - start
        fill(values, residual, start, start + length, block)
        largest, bad_here = peak(block, length), 0
        if not np.isfinite(largest):
            bad_here = mend(block, length, is_bad)
            num_bad += bad_here
            largest = peak(block, length)
        step = min(real(largest / real(levels)), step_max)
        inverse = real(0)
        if step > 0:
            inverse = min(real(real(1) / step), np.finfo(block.dtype).max)  # 1 / subnormal is inf
        steps[index] = step
        round_block(block, length, inverse, levels, lattice, mixed(np.uint64(draw + np.uint64(index))), codes)
        pack(codes, length, width, packed, start * width // 8)
        if residual.size:
            leave(block, codes, levels, step, residual[start : start + length], is_bad, bad_here)
    return num_bad


def _adding(kinds: Kinds) -> Any:
    real, octets = written(kinds.real), written(uint8)
    return void(read(kinds.real), read(uint8), real, octets, int64, int64, kinds.real, boolean)


@kernel(_adding(SINGLE), _adding(DOUBLE))
def add(
    steps: Array, packed: Array, into: Array, codes: Array, levels: int, width: int, scale: float, adds: bool
) -> None:
    """into += scale * decoded codes (`adds`), or into = that."""
    real = into.dtype.type
    size = codes.size
    for index in range(steps.size):
        start = index * size
        length = min(start + size, into.size) - start
        unpack(packed, start * width // 8, length, width, codes)
        put(codes, levels, real(steps[index] * scale), into[start : start + length], adds)
