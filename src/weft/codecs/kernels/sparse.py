"""Indices of a few numbers among many, as a count per block of 65536 and 16-bit offsets: 2 bytes per index."""

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
    uint16,
    uint32,
    void,
    written,
)

SPAN = 65536
"""Numbers in a block: as many as a 16-bit offset can address."""


@kernel(void(read(int64), written(uint32), written(uint16)))
def write(places: Array, counts: Array, offsets: Array) -> None:
    """Write counts and offsets of `places`, which must rise."""
    counts[:] = 0
    for i in range(places.size):
        counts[places[i] // SPAN] += np.uint32(1)
        offsets[i] = np.uint16(places[i] % SPAN)


@kernel(boolean(read(uint32), read(uint16), int64))
def are_right(counts: Array, offsets: Array, num_elements: int) -> bool:
    """Whether offsets rise strictly within each block and stay below `num_elements`.

    They come from another process. The caller has checked that the counts add up to the number of offsets.
    """
    # No early return: payloads are right as a rule, and then every offset has to be read anyway.
    first, are = 0, True
    for block in range(counts.size):
        last = first + int(counts[block])
        before = -1
        for i in range(first, last):
            offset = int(offsets[i])
            are &= offset > before
            before = offset
        are &= before < num_elements - block * SPAN
        first = last
    return are


@kernel(void(read(uint32), read(uint16), written(int64)))
def places(counts: Array, offsets: Array, into: Array) -> None:
    """Write the indices that counts and offsets stand for to `into`."""
    first = 0
    for block in range(counts.size):
        last = first + int(counts[block])
        for i in range(first, last):
            into[i] = block * SPAN + int(offsets[i])
        first = last


def _adding(kinds: Kinds) -> Any:
    return void(read(uint32), read(uint16), read(kinds.real), written(kinds.real), kinds.real)


@kernel(_adding(SINGLE), _adding(DOUBLE))
def add(counts: Array, offsets: Array, numbers: Array, into: Array, scale: float) -> None:
    """into[index] += scale * number, for each index; indices were checked by `are_right`."""
    first = 0
    for block in range(counts.size):
        last = first + int(counts[block])
        for i in range(first, last):
            into[block * SPAN + int(offsets[i])] += scale * numbers[i]
        first = last
