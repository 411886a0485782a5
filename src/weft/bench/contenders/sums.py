"""The work of `weft bench allreduce`: vectors whose sum is known, checked once, then summed in blocks."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.bench.serving import Task, serve

Vector = NDArray[np.float32]

UNITS = {"KiB": 1 << 10, "MiB": 1 << 20}
PERIOD = 251


def num_elements(size: str) -> int:
    """'16MiB' of float32."""
    return int(size[:-3]) * UNITS[size[-3:]] // 4


def values(rank: int, num: int) -> Vector:
    """Small whole numbers, different on every rank: their sums are exact in any order."""
    return (np.arange(num) % PERIOD + 1 + rank).astype(np.float32)


def total(num_ranks: int, num: int) -> Vector:
    """What the values of all ranks add up to."""
    return ((np.arange(num) % PERIOD + 1) * num_ranks + num_ranks * (num_ranks - 1) // 2).astype(np.float32)


def compete(task: Task, rank: int, vector: NDArray[Any], reduce: Callable[[], NDArray[Any]]) -> None:
    """Serve blocks of `reduce`, which sums every rank's `vector` and returns where the sum is."""
    vector[:] = values(rank, vector.size)
    wrong = np.flatnonzero(reduce() != total(task.num_processes, vector.size))
    if wrong.size:
        raise ArithmeticError(f"rank {rank} has {wrong.size} wrong sums of {vector.size}, the first at {wrong[0]}.")
    vector[:] = 0  # sums in place stay finite, however often they are repeated
    serve(task, reduce)
