"""The initial values of all workers: worker 0 writes them to a memfd, from which the workers of its host read them.

Every host has a memfd of its own: worker 0's is copied to the other hosts before their workers get `Welcome`.
"""

import mmap
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from weft.core.seat import Replica

PIECE_BYTES = 1 << 20


def write_values(fd: int, values: Sequence[Any], start: int = 0) -> int:
    """Write arrays one after another, from byte `start` on; returns where they end.

    Earlier values, before `start`, are left alone: other workers may still read them.
    """
    stop = start + sum(int(value.nbytes) for value in values)
    os.ftruncate(fd, max(stop, 1))
    memory = mmap.mmap(fd, max(stop, 1))
    for value, place in zip(values, _places(memory, values, start), strict=True):
        place[...] = value
    return stop


def read_values(fd: int, values: Sequence[Any], start: int = 0) -> int:
    """Read values from byte `start` on into arrays of the same shapes and types; returns where they end."""
    stop = start + sum(int(value.nbytes) for value in values)
    memory = mmap.mmap(fd, max(stop, 1), prot=mmap.PROT_READ)
    for value, place in zip(values, _places(memory, values, start), strict=True):
        value[...] = place
    return stop


def pieces(fd: int) -> Iterator[bytes]:
    """The contents of a memfd of values, in order, in pieces of PIECE_BYTES."""
    start = 0
    while piece := os.pread(fd, PIECE_BYTES, start):
        start += len(piece)
        yield piece


def add_piece(fd: int, start: int, piece: bytes) -> int:
    """Write a piece to another host's memfd at byte `start`; returns where the next piece begins."""
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


class FirstValues:
    """Gives the models of a worker worker 0's initial values, by way of a memfd; those that join later, too."""

    def __init__(self, memory: int, *, is_first: bool) -> None:
        """`is_first`: this is worker 0, as the run began."""
        self._memory = memory
        self._is_first = is_first
        self._num_values, self._end = 0, 0
        """How many of the replica's values are given, and where these end in the memfd."""

    def offer(self, values: Sequence[Any]) -> None:
        """Worker 0 writes those of its values that are new."""
        if self._is_first:
            self._end = write_values(self._memory, values[self._num_values :], self._end)
            self._num_values = len(values)

    def take(self, replica: Replica) -> None:
        """When all have joined, the others take those that are new."""
        if not self._is_first:
            new = replica.values()[self._num_values :]
            self._end = read_values(self._memory, new, self._end)
            self._num_values += len(new)
            replica.begin_with(new)
