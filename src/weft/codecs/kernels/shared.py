"""What several kernels are made of: a block of values with its residual, and numbers drawn by counting."""

import numpy as np

from weft.codecs.codec import Array
from weft.codecs.kernels.compiling import shared


@shared
def mixed(number: np.uint64) -> np.uint64:
    """The splitmix64 of a number: neighbours become unrelated."""
    number = np.uint64(number + np.uint64(0x9E3779B97F4A7C15))
    number = np.uint64((number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9))
    number = np.uint64((number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB))
    return np.uint64(number ^ (number >> np.uint64(31)))


@shared
def gather(values: Array, residual: Array, start: int, stop: int, block: Array, bits: Array) -> int:
    """Write values + residual of a range to `block`; the largest of their absolute values, as an integer.

    `bits` is the same memory as `block`. An integer of bits orders as the number does, and infinities and what is
    not a number come last. No residual is an empty array.
    """
    length = stop - start
    largest = bits.dtype.type(0)
    if residual.size:
        for i in range(length):
            block[i] = values[start + i] + residual[start + i]
    else:
        for i in range(length):
            block[i] = values[start + i]
    everything = np.iinfo(bits.dtype).max
    for i in range(length):
        largest = max(largest, bits.dtype.type(bits[i] & everything))
    return int(largest)


@shared
def mend(block: Array, length: int, is_bad: Array) -> int:
    """Put 0 where a number is not finite, and say where and how many."""
    number = 0
    for i in range(length):
        is_bad[i] = not np.isfinite(block[i])
        if is_bad[i]:
            block[i] = 0
            number += 1
    return number
