"""Random numbers that all workers have alike while they read."""

import random
from collections.abc import Iterator

import numpy as np

from weft.adapters.alike import Alike


def drawn() -> Iterator[tuple[float, float]]:
    for _ in range(4):
        yield random.random(), float(np.random.rand())


def read_by(worker: int, epoch: int = 0) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """What a worker reads, and what it draws itself between."""
    random.seed(worker)
    np.random.seed(worker)
    own, read = [], []
    for item in Alike(seed=7, epoch=epoch).read(drawn()):
        read.append(item)
        own.append((random.random(), float(np.random.rand())))
    return read, own


def test_workers_read_alike_and_draw_their_own_as_if_they_had_not_read() -> None:
    (first, own), (second, others) = read_by(0), read_by(1)
    assert first == second
    assert len(set(first)) == 4
    assert own != others
    random.seed(0)
    np.random.seed(0)
    assert own == list(drawn())


def test_every_epoch_is_read_anew() -> None:
    assert read_by(0)[0] != read_by(0, epoch=1)[0]
