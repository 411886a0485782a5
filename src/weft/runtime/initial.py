"""The values that all workers begin with: worker 0 writes them into a shared file, the others read them."""

import mmap
import os
from collections.abc import Sequence
from typing import Any

import numpy as np


def write_values(fd: int, values: Sequence[Any]) -> None:
    """Write arrays one after another."""
    size = sum(value.nbytes for value in values)
    os.ftruncate(fd, max(size, 1))
    memory = mmap.mmap(fd, max(size, 1))
    for value, place in zip(values, _places(memory, values), strict=True):
        place[...] = value


def read_values(fd: int, values: Sequence[Any]) -> None:
    """Read them into arrays of the same shapes and types."""
    memory = mmap.mmap(fd, max(sum(value.nbytes for value in values), 1), prot=mmap.PROT_READ)
    for value, place in zip(values, _places(memory, values), strict=True):
        value[...] = place


def _places(memory: mmap.mmap, values: Sequence[Any]) -> list[Any]:
    starts = np.cumsum([0, *(value.nbytes for value in values)])
    return [
        np.frombuffer(memory, value.dtype, value.size, int(start)).reshape(value.shape)
        for value, start in zip(values, starts, strict=False)
    ]
