"""Finds the k largest of each block of many numbers exactly, block by block in the cache.

| step       | does                                                                                               |
|------------|----------------------------------------------------------------------------------------------------|
| `sized`    | absolute values as integers, which order as the values do                                          |
| `compress` | indices and sizes of those that reach a guess, a little below the threshold of the last block; if  |
|            | fewer than k do, a lower threshold is found by bisection                                           |
| `bisect`   | the threshold that exactly k reach, among these                                                    |
| `emit`     | their indices                                                                                      |
| `move`     | the numbers themselves, from the residual to the payload                                           |

Sizes are compared 64 at a time, which gives a word of 64 bits. Loops over the bits that are 1 have no branch for the
others, which would be mispredicted at each that is found. Arrays are filled up to 64 with sizes below all others.
"""

from typing import Any

import numpy as np

from weft.codecs.codec import Array
from weft.codecs.kernels.compiling import DOUBLE, SINGLE, Kinds, int64, kernel, read, shared, void, written
from weft.codecs.kernels.lanes import bits_of, first_one, num_ones, number_of, part, reach_64

WORD = 64
MARGIN = 0.9
"""The guess is so much of the last threshold: nearly all blocks have their k above it, and few more."""

STRIDE = 8
"""How many indices are written at a time."""

BAD, FILLED = -1, -2
"""Sizes of numbers that are not finite, and of none."""


@shared
def num_from(sizes: Array, number: int, least: Any) -> int:
    """How many of the first `number` are `least` or above."""
    found = 0
    for i in range(0, number, WORD):
        found += num_ones(reach_64(sizes, i, least))
    return found


@shared
def bisect(sizes: Array, number: int, wanted: int, most: int, low: Any, num_low: int, high: Any) -> Any:
    """Raise `low`, which `num_low` of the sizes reach, until at most `most` do, but always at least `wanted`, or until
    it is the size of the last of these. No size is above `high`."""
    while low < high and num_low > most:
        middle = sizes.dtype.type(low + (high - low + 1) // 2)
        num_middle = num_from(sizes, number, middle)
        if num_middle >= wanted:
            low, num_low = middle, num_middle
        else:
            high = sizes.dtype.type(middle - 1)
    return low


@shared
def compress(sizes: Array, number: int, least: Any, places: Array, found: Array) -> int:
    """Write indices and sizes of those from `least` on, and fill up; returns how many."""
    num_found = 0
    for i in range(0, number, WORD):
        which = reach_64(sizes, i, least)
        after = num_found + num_ones(which)
        while num_found < after:
            # as many as a word usually has, without asking for each: what is too many is overwritten by the next
            for j in range(STRIDE):
                places[num_found + j] = i + first_one(which)
                which &= which - np.uint64(1)
            num_found = min(num_found + STRIDE, after)
    for j in range(num_found):
        found[j] = sizes[places[j]]
    fill(found, num_found)
    return num_found


@shared
def fill(sizes: Array, number: int) -> None:
    """Fill up what follows the first `number`."""
    for i in range(WORD - 1):
        sizes[number + i] = FILLED


@shared
def emit(sizes: Array, number: int, least: Any, wanted: int, places: Array, start: int, chosen: Array) -> None:
    """Write start + places of the `wanted` largest, which all reach `least`; of those that equal it, the first."""
    above = sizes.dtype.type(least + 1)
    num_ties, count = wanted - num_from(sizes, number, above), 0
    for i in range(0, number, WORD):
        which = reach_64(sizes, i, above)
        ties = reach_64(sizes, i, least) & ~which
        while ties and num_ties > 0:
            which |= ties & (~ties + np.uint64(1))
            ties &= ties - np.uint64(1)
            num_ties -= 1
        while which:
            chosen[count] = start + places[i + first_one(which)]
            count += 1
            which &= which - np.uint64(1)


@shared
def move(total: Array, residual: Array, sizes: Array, start: int, places: Array, numbers: Array) -> None:
    """Write the numbers at these places of a block that starts at `start`; the residual, if there is one, is 0 there
    from now on. What is not finite counts as 0, and its residual stays."""
    for i in range(places.size):
        if sizes[places[i] - start] == BAD:
            numbers[i] = 0
            continue
        numbers[i] = total[places[i]]
        if residual.size:
            residual[places[i]] = 0


def _taking(kinds: Kinds) -> Any:
    real, bits = written(kinds.real), written(kinds.bits)
    return void(read(kinds.real), real, read(int64), int64, int64, bits, bits, written(int64), written(int64), real)


@kernel(_taking(SINGLE), _taking(DOUBLE))
def take_of_blocks(
    total: Array,
    residual: Array,
    bad: Array,
    number: int,
    block: int,
    sizes: Array,
    found: Array,
    places: Array,
    chosen: Array,
    numbers: Array,
) -> None:
    """Move the `number` largest of each block from the residual to `numbers`, and write their indices to `chosen`.

    Ties go to the first, and what is not finite comes last. `total` is the residual, if there is one. `sizes`, `found`
    and `places` are scratch of a block and 64 more.
    """
    real, kind = total.dtype.type, sizes.dtype.type
    next_bad, count, guess = 0, 0, kind(0)
    for start in range(0, total.size, block):
        length = min(block, total.size - start)
        here = part(total, start, start + length)
        for i in range(length):
            sizes[i] = bits_of(abs(here[i]))
        fill(sizes, length)
        while next_bad < bad.size and bad[next_bad] < start + length:
            sizes[bad[next_bad] - start] = BAD
            next_bad += 1
        wanted, low = min(number, length), guess
        num_found = compress(sizes, length, low, places, found)
        if num_found < wanted:
            low = bisect(sizes, length, wanted, 2 * wanted, kind(BAD), length, kind(low - 1))
            num_found = compress(sizes, length, low, places, found)
        high = low
        for i in range(num_found):
            high = max(high, found[i])
        low = bisect(found, num_found, wanted, wanted, low, num_found, high)
        those = part(chosen, count, count + wanted)
        emit(found, num_found, low, wanted, places, start, those)
        move(total, residual, sizes, start, those, part(numbers, count, count + wanted))
        count += wanted
        guess = bits_of(real(MARGIN * number_of(max(low, kind(0)))))
