"""Compressed descent in miniature: a few workers, a codec, plain numpy."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from weft.codecs import Codec, Form, Turn

Vector = NDArray[np.float64]


def within_standard_errors(draws: Vector, expected: Vector, number: float = 4.0) -> bool:
    """The mean over the first axis is the expected one, but for so many of its standard errors."""
    errors = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    return bool((np.abs(draws.mean(axis=0) - expected) <= number * errors + 1e-7 * np.abs(expected).max()).all())


def many_draws(codec: Codec, values: Vector, num_draws: int) -> Vector:
    """What is decoded of the same values in each of so many blocks, one below the other."""
    block = len(values)
    form, said = Form(num_draws * block, 8), np.empty(num_draws * block)
    codec.decode(codec.encode(np.tile(values, num_draws), None, form, Turn(draw=99)).payload, said, form)
    return said.reshape(num_draws, block)


def descend(
    codec: Codec | None,
    gradient: Callable[[Vector, int, int], Vector],
    start: Vector,
    lr: float,
    num_steps: int,
    num_workers: int = 2,
    keeps_residual: bool = True,
) -> Vector:
    """Where the mean of the workers' decoded gradients leads; `gradient` is of (params, worker, step)."""
    params, form = start.copy(), Form(len(start), 8)
    residuals = np.zeros((num_workers, len(start)))
    for step in range(num_steps):
        mean = np.zeros_like(params)
        for worker, residual in enumerate(residuals):
            local = gradient(params, worker, step)
            if codec is None:
                mean += local / num_workers
                continue
            turn = Turn(step, step * num_workers + worker << 40, 5)
            payload = codec.encode(local, residual if keeps_residual else None, form, turn).payload
            codec.add(payload, mean, 1 / num_workers, form)
        params -= lr * mean
    return params


def noisy_bowl(num: int = 64, seed: int = 0) -> tuple[Callable[[Vector, int, int], Vector], Vector]:
    """The gradient of 0.5 |x - target|^2 with skewed noise, to either side and of all sizes; and the target.

    The skew is what biased codecs stumble over: with symmetric noise, even 1-bit without feedback ends as near.
    """
    rng = np.random.default_rng(seed)
    target, spread = rng.standard_normal(num), 10.0 ** rng.uniform(-2, 1, num) * rng.choice([-1, 1], num)

    def gradient(params: Vector, worker: int, step: int) -> Vector:
        noise = np.random.default_rng((seed, worker, step)).exponential(size=num) - 1.0
        return params - target + spread * noise

    return gradient, target
