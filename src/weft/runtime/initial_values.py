"""The values that all workers begin with: worker 0 writes them into a shared file, the others read them.

Every host has a file of its own: before the others read theirs, what is in that of worker 0 is written there, too.
"""

import mmap
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

PIECE_BYTES = 1 << 20


def write_values(fd: int, values: Sequence[Any], start: int = 0) -> int:
    """Write arrays one after another, from `start` on, behind what others may still read; where they end."""
    stop = start + sum(int(value.nbytes) for value in values)
    os.ftruncate(fd, max(stop, 1))
    memory = mmap.mmap(fd, max(stop, 1))
    for value, place in zip(values, _places(memory, values, start), strict=True):
        place[...] = value
    return stop


def read_values(fd: int, values: Sequence[Any], start: int = 0) -> int:
    """Read them into arrays of the same shapes and types; where they end."""
    stop = start + sum(int(value.nbytes) for value in values)
    memory = mmap.mmap(fd, max(stop, 1), prot=mmap.PROT_READ)
    for value, place in zip(values, _places(memory, values, start), strict=True):
        value[...] = place
    return stop


def pieces(fd: int) -> Iterator[bytes]:
    """What is in a file of values, piece by piece, in order."""
    start = 0
    while piece := os.pread(fd, PIECE_BYTES, start):
        start += len(piece)
        yield piece


def add_piece(fd: int, start: int, piece: bytes) -> int:
    """Write the next piece into another host's file; where the one after it begins."""
    done = 0
    while done < len(piece):
        done += os.pwrite(fd, piece[done:], start + done)
    return start + done


def _places(memory: mmap.mmap, values: Sequence[Any], start: int) -> list[Any]:
    starts = np.cumsum([start, *(value.nbytes for value in values)])
    return [
        np.frombuffer(memory, value.dtype, value.size, int(start)).reshape(value.shape)
        for value, start in zip(values, starts, strict=False)
    ]
