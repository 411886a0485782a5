"""Vogels et al. 2019, "PowerSGD: practical low-rank gradient compression for distributed optimization"."""

from typing import Any

import numpy as np
import pytest
from support.oracles.compressed import Vector

from weft.codecs import Form, PowerSGD, Turn

ROWS, COLUMNS = 40, 30
FORM = Form(ROWS * COLUMNS, 8, ((0, (ROWS, COLUMNS)),))


def random_matrix(rank: int, seed: int) -> Vector:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((ROWS, rank)) @ rng.standard_normal((rank, COLUMNS))).reshape(-1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rank", [1, 2, 4])
def test_a_gradient_of_rank_r_is_exact(rank: int, dtype: type) -> None:
    values: Any = random_matrix(rank, 0).astype(dtype)
    form, said = FORM._replace(itemsize=values.itemsize), np.empty_like(values)
    PowerSGD(rank).decode(PowerSGD(rank).encode(values, None, form, Turn()).payload, said, form)
    assert np.linalg.norm(said - values) <= 1e-5 * np.linalg.norm(values)


def test_the_compressor_is_linear_so_factors_are_averaged_instead_of_gradients() -> None:
    """Linearity: all-reduce of factors is compression of the mean."""
    codec, workers = PowerSGD(2), [random_matrix(10, seed) for seed in range(3)]
    lefts = [codec.left.encode(values, None, FORM, Turn(common=7)).payload for values in workers]
    mean_left = codec.left.encode(np.mean(workers, axis=0), None, FORM, Turn(common=7)).payload
    for left in lefts[1:]:
        codec.left.merge(lefts[0], 1.0, left, 1.0, FORM)
    np.testing.assert_allclose(lefts[0].view(np.float64) / 3, mean_left.view(np.float64), rtol=1e-9)


def test_warm_start_finds_the_best_approximation_of_a_steady_gradient() -> None:
    """Warm start: one step of power iteration, continued, is as good as the best of rank r."""
    values, payload, said = random_matrix(30, 1), None, np.empty(ROWS * COLUMNS)
    best = np.sqrt((np.linalg.svd(values.reshape(ROWS, COLUMNS), compute_uv=False)[2:] ** 2).sum())
    errors = []
    for clock in range(60):
        payload = PowerSGD(2).encode(values, None, FORM, Turn(clock), payload).payload
        PowerSGD(2).decode(payload, said, FORM)
        errors.append(np.linalg.norm(said - values))
    assert errors[0] > 1.1 * best
    assert errors[-1] < 1.02 * best


def test_error_feedback_says_everything_in_time() -> None:
    """Algorithm 2: what is left out is added to the next gradient."""
    gradient, residual, sent, payload = random_matrix(30, 2), np.zeros((2, ROWS * COLUMNS)), 0.0, None
    for clock in range(100):
        payload = PowerSGD(2).encode(gradient, residual[0], FORM, Turn(clock), payload).payload
        PowerSGD(2).add(payload, residual[1], 1.0, FORM)
    sent = residual[1] / 100
    assert np.linalg.norm(sent - gradient) < 0.2 * np.linalg.norm(gradient)
    np.testing.assert_allclose(residual[1] + residual[0], 100 * gradient, atol=1e-9)


def test_biases_are_not_compressed() -> None:
    """Only matrices are; all dimensions but the first of a tensor are one."""
    form = Form(64 * 3 * 3 * 16 + 64, 4, ((0, (64, 16, 3, 3)), (64 * 144, (64,))))
    assert PowerSGD(4).size(form) == 4 * (4 * (64 + 144) + 64)
