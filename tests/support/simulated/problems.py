"""Small problems in float64 whose gradients are known: least squares on seeded batches, and recorded updates."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SIZES = (1, 6, 3, 2, 8, 1, 4, 5, 7, 2, 3, 1, 9, 2, 6, 4)
"""Unequal batches: worker i has SIZES[i] samples in every step."""


class LeastSquares:
    """|Xw - y|² / 2n: in every step worker i draws `sizes[i]` rows of a fixed set of 64."""

    def __init__(self, sizes: Sequence[int], dim: int = 5, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.sizes = list(sizes)
        self.x: Array = rng.normal(size=(64, dim))
        self.y: Array = self.x @ rng.normal(size=dim) + 0.1 * rng.normal(size=64)
        self.start: Array = rng.normal(size=dim)
        self._rows = [rng.integers(0, 64, size=(64, size)) for size in sizes]

    def rows(self, worker: int, step: int) -> Any:
        return self._rows[worker][step % 64]

    def gradient(self, worker: int, step: int, w: Array) -> Array:
        """The mean gradient of one worker's batch."""
        return self.mean_gradient(self.rows(worker, step), w)

    def union(self, worker: int, step: int, w: Array) -> Array:
        """The mean gradient of all workers' batches together, for a worker that is alone."""
        return self.mean_gradient(np.concatenate([self.rows(i, step) for i in range(len(self.sizes))]), w)

    def mean_gradient(self, rows: Any, w: Array) -> Array:
        """Over these rows."""
        x, y = self.x[rows], self.y[rows]
        return np.asarray(x.T @ (x @ w - y) / len(rows))

    def loss(self, w: Array) -> float:
        """Over all samples."""
        return float(np.mean((self.x @ w - self.y) ** 2) / 2)

    def starts(self) -> list[Array]:
        """The same start for every worker."""
        return [self.start] * len(self.sizes)


def different_starts(num_workers: int, seed: int, dim: int = 3) -> list[Array]:
    """Each worker's own start, of different sizes."""
    rng = np.random.default_rng(seed)
    return list(rng.normal(size=(num_workers, dim)) * 10.0 ** rng.integers(-2, 3, size=(num_workers, 1)))


def fixed_updates(num_workers: int, num_steps: int, seed: int, dim: int = 3) -> Array:
    """Gradients that were recorded once: [worker, step] gives one, whatever the parameters are."""
    return np.random.default_rng(seed).normal(size=(num_workers, num_steps, dim))


def nothing(worker: int, step: int, w: Array) -> Array:
    """A gradient of zero, so that only communication moves parameters."""
    return np.zeros_like(w)


def relative(a: Any, b: Any) -> float:
    """The largest difference, relative to the largest value of b."""
    a, b = np.asarray(a), np.asarray(b)
    return float(np.max(np.abs(a - b)) / max(float(np.max(np.abs(b))), 1e-300))
