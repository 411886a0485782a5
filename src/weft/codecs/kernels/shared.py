"""Helpers of several kernels: a block of values plus residual, its largest number, and counter-based random numbers.

Kernels work block by block, so that the passes over a block (fill, peak, encode, residual) find it in the cache.
"""

from typing import Any

import numpy as np

from weft.codecs.codec import Array
from weft.codecs.kernels.compiling import shared
from weft.codecs.kernels.lanes import bits_of, number_of


@shared
def mixed(number: np.uint64) -> np.uint64:
    """splitmix64 of a number: a random number that depends on its argument only, so that draws need no state."""
    number = np.uint64(number + np.uint64(0x9E3779B97F4A7C15))
    number = np.uint64((number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9))
    number = np.uint64((number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB))
    return np.uint64(number ^ (number >> np.uint64(31)))


@shared
def fill(values: Array, residual: Array, start: int, stop: int, block: Array) -> None:
    """Write values + residual of a range to `block`. No residual is an empty array."""
    here, left = values[start:stop], residual[start:stop]
    if residual.size:
        for i in range(here.size):
            block[i] = here[i] + left[i]
    else:
        for i in range(here.size):
            block[i] = here[i]


@shared
def peak(block: Array, length: int) -> Any:
    """The largest absolute value; inf or NaN if there is one.

    Compared as integers: bits of non-negative numbers order as the numbers do, inf and NaN last. A maximum of floats
    could lose a NaN.
    """
    largest = bits_of(block.dtype.type(0))
    for i in range(length):
        largest = max(largest, bits_of(abs(block[i])))
    return number_of(largest)


@shared
def mend(block: Array, length: int, is_bad: Array) -> int:
    """Replace numbers that are not finite by 0; marks them in `is_bad`, and returns how many there are."""
    number = 0
    for i in range(length):
        is_bad[i] = not np.isfinite(block[i])
        if is_bad[i]:
            block[i] = 0
            number += 1
    return number
