"""Finds the k largest of many numbers (top-k) exactly, usually with one pass over them.

| step     | does                                                                                              |
|----------|---------------------------------------------------------------------------------------------------|
| `sample` | sizes of a few runs spread over everything, from which the caller guesses a threshold `least`     |
| `scan`   | residual + momentum for all numbers, and the indices of those from `least` on                     |
| `choose` | exactly k of these; of all numbers if the guess left fewer than k, or more than there is room for |

Sizes are compared as integers: the bits of absolute values order as the values do.
"""

from typing import Any

import numpy as np

from weft.codecs.codec import Array
from weft.codecs.kernels.compiling import DOUBLE, SINGLE, Kinds, int64, kernel, read, shared, types, void, written
from weft.codecs.kernels.lanes import bits_of, reach
from weft.codecs.kernels.shared import mend, mixed

RUN = 16
"""Neighbouring numbers that are sampled together: a cache line of float32 is loaded anyway."""


@shared
def gather(
    values: Array, residual: Array, velocity: Array, momentum: Any, factor: Any, start: int, moved: Array, block: Array
) -> None:
    """moved = momentum * velocity + factor * values; block = residual + moved.

    An empty velocity, or residual, counts as 0; with a velocity there is always a residual.
    """
    stop = start + block.size
    here, left, speed = values[start:stop], residual[start:stop], velocity[start:stop]
    if velocity.size:
        for i in range(block.size):
            moved[i] = momentum * speed[i] + factor * here[i]
            block[i] = left[i] + moved[i]
    elif residual.size:
        for i in range(block.size):
            block[i] = left[i] + factor * here[i]
    else:
        for i in range(block.size):
            block[i] = factor * here[i]


@shared
def keep(residual: Array, velocity: Array, start: int, moved: Array, block: Array, is_bad: Array, num_bad: int) -> None:
    """Store what was gathered as the new residual and velocity, except where it is not finite."""
    for i in range(block.size):
        if num_bad and is_bad[i]:
            continue
        if residual.size:
            residual[start + i] = block[i]
        if velocity.size:
            velocity[start + i] = moved[i]


@shared
def keep_all(into: Array, start: int, numbers: Array) -> None:
    """Copy `numbers` to into[start:], where all are finite; does nothing if `into` is empty."""
    here = into[start : start + numbers.size]
    for i in range(here.size):
        here[i] = numbers[i]


@shared
def sized(block: Array, bits: Array) -> Any:
    """Write absolute values as integers to `bits`; returns the largest, found in a loop of its own."""
    largest = bits_of(block.dtype.type(0))
    for i in range(block.size):
        bits[i] = bits_of(abs(block[i]))
    for i in range(block.size):
        largest = max(largest, bits[i])
    return largest


@shared
def longer(places: Array, number: int, more: int) -> Array:
    """`places` itself, or a copy with twice the room, so that `more` fit behind the first `number`."""
    if number + more <= places.size:
        return places
    room = np.empty(max(2 * places.size, number + more), np.int64)
    room[:number] = places[:number]
    return room


@shared
def note(bits: Array, start: int, least: Any, places: Array, sizes: Array, number: int) -> int:
    """Append indices and sizes of numbers from `least` on; returns their count, also of those that found no room.

    Eight at a time are compared to one byte; few bytes are not 0, since few numbers are large.
    """
    whole = bits.size // 8 * 8
    for i in range(0, whole, 8):
        which = reach(bits, i, least)
        if which:
            for j in range(8):
                if (which >> np.uint8(j)) & np.uint8(1):
                    if number < places.size:
                        places[number] = start + i + j
                        sizes[number] = bits[i + j]
                    number += 1
    for i in range(whole, bits.size):
        if bits[i] >= least:
            if number < places.size:
                places[number] = start + i
                sizes[number] = bits[i]
            number += 1
    return number


def _scanning(kinds: Kinds) -> Any:
    real, bits = written(kinds.real), written(kinds.bits)
    scalars = (kinds.real, kinds.real, kinds.bits)
    return types.Tuple((int64, types.Array(int64, 1, "C")))(  # type: ignore[no-untyped-call]
        read(kinds.real), real, real, *scalars, real, real, bits, written(int64), bits
    )


@kernel(_scanning(SINGLE), _scanning(DOUBLE))
def scan(
    values: Array,
    residual: Array,
    velocity: Array,
    momentum: Any,
    factor: Any,
    least: Any,
    block: Array,
    moved: Array,
    bits: Array,
    places: Array,
    sizes: Array,
) -> tuple[int, Array]:
    """Gather everything, and note the indices and sizes (as integers) of numbers from `least` on, while there is room.

    Returns their number, and the indices of numbers that are not finite: there residual and velocity stay.
    """
    number, num_bad = 0, 0
    bad, is_bad = np.empty(0, np.int64), np.zeros(block.size, np.bool_)
    infinity = bits_of(block.dtype.type(np.inf))
    for start in range(0, values.size, block.size):
        length = min(block.size, values.size - start)
        here, there, integers = block[:length], moved[:length], bits[:length]
        gather(values, residual, velocity, momentum, factor, start, there, here)
        largest = sized(here, integers)
        if largest >= infinity:
            bad_here = mend(here, length, is_bad)
            keep(residual, velocity, start, there, here, is_bad, bad_here)
            bad = longer(bad, num_bad, bad_here)
            for i in range(length):
                if is_bad[i]:
                    bad[num_bad] = start + i
                    num_bad += 1
            largest = sized(here, integers)
        else:
            keep_all(residual, start, here)
            keep_all(velocity, start, there)
        if largest >= least:
            number = note(integers, start, least, places, sizes, number)
    return number, bad[:num_bad]


def _sampling(kinds: Kinds) -> Any:
    real = read(kinds.real)
    return void(real, real, real, kinds.real, kinds.real, written(kinds.bits))


@kernel(_sampling(SINGLE), _sampling(DOUBLE))
def sample(values: Array, residual: Array, velocity: Array, momentum: Any, factor: Any, sizes: Array) -> None:
    """Write the sizes, as integers, of what `scan` would gather, for pseudo-random runs spread over everything."""
    num_runs = sizes.size // RUN
    stretch = values.size // num_runs
    for run in range(num_runs):
        start = run * stretch + int(mixed(np.uint64(run)) >> np.uint64(33)) % max(stretch - RUN, 1)
        for i in range(RUN):
            number = factor * values[start + i]
            if velocity.size:
                number += momentum * velocity[start + i]
            if residual.size:
                number += residual[start + i]
            sizes[run * RUN + i] = bits_of(abs(number))


def _choosing(kinds: Kinds) -> Any:
    return int64(read(int64), read(kinds.bits), kinds.bits, int64, written(int64))


@kernel(_choosing(SINGLE), _choosing(DOUBLE))
def choose(places: Array, sizes: Array, least: Any, num_ties: int, chosen: Array) -> int:
    """Write indices of numbers above `least`, and of the first `num_ties` that equal it, to `chosen`; how many."""
    number = 0
    for i in range(places.size):
        is_tie = sizes[i] == least
        if sizes[i] > least or (is_tie and num_ties > 0):
            chosen[number] = places[i]
            number += 1
            num_ties -= is_tie
    return number
