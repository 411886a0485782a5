"""Every codec again, in plain numpy: slow and obvious. Draws are those of the kernels, so that results can be equal."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.codecs import (
    BF16,
    DGC,
    FP8,
    FP16,
    QSGD,
    Chain,
    Codec,
    Factors,
    Form,
    Int8,
    Nonzeros,
    OneBit,
    PowerSGD,
    RandomK,
    SignSGD,
    TernGrad,
    Threshold,
    TopK,
    Turn,
)
from weft.codecs.codec import Array

EVERY_BIT = (1 << 64) - 1


def summed(values: Array, residual: Array) -> tuple[Array, NDArray[np.bool_]]:
    """What there is to say: where it is not finite only the residual; and where that is."""
    with np.errstate(all="ignore"):
        total = values + residual
    is_bad = ~np.isfinite(total)
    return np.where(is_bad, residual, total), is_bad


def splitmix(number: int) -> int:
    number = (number + 0x9E3779B97F4A7C15) & EVERY_BIT
    number = ((number ^ number >> 30) * 0xBF58476D1CE4E5B9) & EVERY_BIT
    number = ((number ^ number >> 27) * 0x94D049BB133111EB) & EVERY_BIT
    return number ^ number >> 31


def shares(key: int, size: int, dtype: "np.dtype") -> Array:
    """Numbers from 0 to 1, drawn by counting."""
    drawn = np.arange(size, dtype=np.uint32) * np.uint32(0x9E3779B9)
    drawn = (drawn ^ drawn >> np.uint32(16)) * np.uint32(0x21F0AAAD)
    drawn ^= drawn >> np.uint32(15)
    drawn = (drawn ^ np.uint32(key & 0xFFFFFFFF)) * np.uint32(0x7FEB352D)
    drawn = (drawn ^ drawn >> np.uint32(15) ^ np.uint32(key >> 32)) * np.uint32(0x846CA68B)
    return ((drawn ^ drawn >> np.uint32(16)) >> np.uint32(8)).astype(dtype) * dtype.type(2.0**-24)


def rounded(block: Array, step: float, levels: int, key: int) -> Array:
    """A block as multiples of a step, up or down by chance."""
    real = block.dtype.type
    with np.errstate(all="ignore"):
        inverse = min(real(1) / real(step), np.finfo(block.dtype).max) if step else real(0)
    codes = np.floor(block * inverse + real(levels) + shares(key, len(block), block.dtype))
    return (np.clip(codes, 0, 2 * levels) - levels).astype(block.dtype) * real(step)


def pieces(number: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, number)) for start in range(0, number, size))


def stochastic(levels: int, size: int, total: Array, is_bad: Array, turn: Turn) -> Array:
    said, total = np.zeros_like(total), np.where(is_bad, 0, total).astype(total.dtype)
    for index, piece in enumerate(pieces(len(total), size)):
        peak = np.abs(total[piece]).max()
        longest = np.finfo(total.dtype).max / levels * (1 - 2.0**-22 if levels > 1 else 1)
        step = min(total.dtype.type(peak / total.dtype.type(levels)), total.dtype.type(longest))
        said[piece] = rounded(total[piece], step, levels, splitmix(turn.draw + index & EVERY_BIT))
    return said


def ternary(codec: TernGrad, total: Array, is_bad: Array, turn: Turn, form: Form) -> Array:
    """Pieces are tensors and what is between them, or blocks; draws count in chunks of 2,048."""
    edges = {0, len(total), *(range(0, len(total), codec.block) if codec.block else ())}
    if not codec.block:
        edges |= {edge for start, shape in form.tensors for edge in (start, start + int(np.prod(shape)))}
    cut, said = sorted(edges), np.zeros_like(total)
    total = np.where(is_bad, 0, total).astype(total.dtype)
    for start, stop in pairwise(cut):
        piece, number = total[start:stop], stop - start - is_bad[start:stop].sum()
        with np.errstate(all="ignore"):
            deviation = np.sqrt((piece.astype(np.float64) ** 2).sum() / max(number, 1))
        peak = np.abs(piece).max()
        limit = total.dtype.type(codec.clip * deviation) if 0 < codec.clip * deviation < peak else peak
        for first in sorted({start, *(place for place in range(0, stop, 2048) if place > start)}):
            last = min(stop, first // 2048 * 2048 + 2048)
            clipped = np.clip(total[first:last], -limit, limit)
            said[first:last] = rounded(clipped, limit, 1, splitmix(turn.draw + first & EVERY_BIT))
    return said


def means(size: int | None, total: Array) -> Array:
    """Each number the mean of those of its block that have its sign; without a block, 1."""
    if size is None:
        return np.where(total >= 0, 1, -1).astype(total.dtype)
    said = np.zeros_like(total)
    for piece in pieces(len(total), size):
        is_high = total[piece] >= 0
        for which in (is_high, ~is_high):
            if which.any():
                said[piece][which] = np.mean(total[piece][which].astype(np.longdouble)).astype(total.dtype)
    return said


def cast(size: int, top: float, digits: int, lowest: float, total: Array, is_bad: Array) -> Array:
    """Each block times a power of two, rounded to so many digits and no finer than `lowest`, and back."""
    said, total = np.zeros_like(total), np.where(is_bad, 0, total).astype(total.dtype)
    highest, power = {4: 126, 8: 1022}[total.itemsize], total.dtype.type(1)
    for piece in pieces(len(total), size):
        mantissa, exponent = np.frexp(np.abs(total[piece]).max())
        wanted = 15 - exponent if top > 448 else 9 - exponent - (mantissa > 0.875)
        with np.errstate(over="ignore"):
            is_kept = top > 448 and 2.0**11 <= np.abs(total[piece]).max() * power < 2.0**15
        if not is_kept:
            power = total.dtype.type(
                2.0 ** np.clip(wanted, (16 if top > 448 else 9) - highest - 2, highest) if mantissa else 1
            )
        numbers = np.clip(total[piece] * power, -top, top).astype(np.float32).astype(np.float64)
        units = np.maximum(2.0 ** (np.frexp(numbers)[1] - digits), lowest)
        said[piece] = (np.rint(numbers / units) * units).astype(total.dtype) * (1 / power)
    return said


def brain(total: Array, is_bad: Array) -> Array:
    """Rounded to 8 digits; no finer than the smallest bfloat16, no larger than the largest."""
    largest = np.finfo(np.float32).max
    numbers = np.clip(np.where(is_bad, 0, total), -largest, largest).astype(np.float32).astype(np.float64)
    units = np.maximum(2.0 ** (np.frexp(numbers)[1] - 8), 2.0**-133)
    return np.clip(np.rint(numbers / units) * units, -255 * 2.0**120, 255 * 2.0**120).astype(total.dtype)


def chosen(codec: Codec, total: Array, is_bad: Array, turn: Turn) -> NDArray[np.int64]:
    """Where the numbers are that a sparsifier keeps; ties go to the first."""
    sizes, number = np.where(is_bad, -1, np.abs(total)), len(total)
    order = np.argsort(-sizes, kind="stable")
    if isinstance(codec, TopK) and codec.k_of_block:
        kept = [
            piece.start + np.argsort(-sizes[piece], kind="stable")[: codec.k_of_block]
            for piece in pieces(number, codec.block)
        ]
        return np.sort(np.concatenate(kept))
    if isinstance(codec, TopK | DGC):
        fraction = codec.fraction if isinstance(codec, TopK) else codec.fraction_at(turn.clock)
        return np.sort(order[: max(1, int(np.ceil(fraction * number)))])
    if isinstance(codec, Threshold):
        return np.flatnonzero(sizes >= codec.t)
    if isinstance(codec, Nonzeros):
        return np.flatnonzero(sizes > 0)
    assert isinstance(codec, RandomK)
    k = max(1, int(np.ceil(codec.fraction * number)))
    seed = splitmix(splitmix(turn.common) + turn.clock & EVERY_BIT)
    edges = [index * number // k for index in range(k + 1)]
    draws = [splitmix(seed + index & EVERY_BIT) >> 32 for index in range(k)]
    return np.array([low + (draw * (high - low) >> 32) for low, high, draw in zip(edges, edges[1:], draws)])


def sparse(codec: Codec, total: Array, is_bad: Array, turn: Turn) -> Array:
    said, places = np.zeros_like(total), chosen(codec, total, is_bad, turn)
    said[places] = np.where(is_bad[places], 0, total[places])
    return said


def chained(codec: Chain, total: Array, is_bad: Array, turn: Turn) -> Array:
    """The second sees what the first keeps as a vector of its own."""
    said, places = np.zeros_like(total), chosen(codec.first, total, is_bad, turn)
    numbers = np.where(is_bad[places], 0, total[places]).astype(total.dtype)
    form = Form(len(places), total.itemsize)
    if len(places):
        said[places] = decoded(codec.second, numbers, np.zeros_like(numbers), turn, form)
    return said


def low_rank(codec: PowerSGD, total: Array, turn: Turn, form: Form) -> Array:
    """Each matrix projected on the space that its product with random columns spans."""
    said = total.copy()
    rng = np.random.default_rng((turn.common, turn.clock))
    for start, shape in form.tensors:
        if len(shape) < 2:
            continue
        rows, columns = shape[0], int(np.prod(shape[1:]))
        if codec.rank > min(rows, columns) or codec.rank * (rows + columns) >= rows * columns:
            continue
        matrix = total[start : start + rows * columns].reshape(rows, columns).astype(np.float64)
        drawn = rng.standard_normal((columns, codec.rank)).astype(total.dtype)
        space, weights, _ = np.linalg.svd(matrix @ drawn, full_matrices=False)
        space = space[:, weights > 1e-6 * max(weights[0], 1e-300)]
        said[start : start + rows * columns] = (space @ (space.T @ matrix)).reshape(-1)
    return said


def decoded(codec: Any, values: Array, residual: Array, turn: Turn, form: Form) -> Array:
    """What a codec must make of values + residual."""
    total, is_bad = summed(values, residual)
    known: dict[type[Codec], Callable[[], Array]] = {
        FP16: lambda: cast(4096, 65504.0, 11, 2.0**-24, total, is_bad),
        BF16: lambda: brain(total, is_bad),
        FP8: lambda: cast(512, 448.0, 4, 2.0**-9, total, is_bad),
        Int8: lambda: stochastic(127, codec.block, total, is_bad, turn),
        QSGD: lambda: stochastic(codec.levels, codec.block, total, is_bad, turn),
        TernGrad: lambda: ternary(codec, total, is_bad, turn, form),
        OneBit: lambda: means(codec.block, total),
        SignSGD: lambda: means(None, total),
        PowerSGD: lambda: low_rank(codec, total, turn, form),
        Factors: lambda: total,
        Chain: lambda: chained(codec, total, is_bad, turn),
    }
    return known.get(type(codec), lambda: sparse(codec, total, is_bad, turn))()
