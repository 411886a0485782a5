"""Lowered sums and means are right for every size, with weights of zero, and whoever starts late."""

import numpy as np
import pytest
from support.simulated.problems import Array, fixed_updates, relative
from support.simulated.reducers import ReduceOnce
from support.simulated.weather import storm

from weft.config.registry import COLLECTIVES, lowered
from weft.core.actions import MEAN, SUM
from weft.core.strategy import Strategy
from weft.testing.worlds import simulate_arrays

WEIGHTS = (0.0, 2.0, 5.0, 0.0, 1.0, 3.0, 0.0, 0.5, 4.0)
STEPS = 3

every_collective = pytest.mark.parametrize("collective", [None, *COLLECTIVES])
every_size = pytest.mark.parametrize("size", range(1, 10))


def reduced(strategy: Strategy, values: Array, weights: list[float], seed: int) -> Array:
    """What each worker holds after each step, when it put values[worker, step] into its parameters before."""
    size, num_steps, dim = values.shape
    seen = np.zeros((size, num_steps + 1, dim))

    def put(worker: int, step: int, w: Array) -> Array:
        seen[worker, step] = w
        w[:] = values[worker, step]
        return np.zeros(dim)

    options = {"num_steps": num_steps, "samples": weights, "starts": [np.zeros(dim)] * size}
    ran = simulate_arrays(strategy, size, put, **options, **storm(size, seed))
    seen[:, num_steps] = [params[0] for params in ran.params]
    return seen[:, 1:]


def made(op: str, collective: str | None) -> Strategy:
    return ReduceOnce(op) if collective is None else lowered(ReduceOnce(op), collective)


@every_collective
@every_size
@pytest.mark.parametrize("dim", [3, 8])
def test_means_weigh_by_samples_whoever_starts_late(collective: str | None, size: int, dim: int) -> None:
    values, weights = fixed_updates(size, STEPS, seed=size, dim=dim), [*WEIGHTS[1:size], 2.0]
    expected = np.average(values, axis=0, weights=weights)
    for seed in range(2):
        assert relative(reduced(made(MEAN, collective), values, weights, seed), [expected] * size) < 1e-12


@every_collective
@every_size
def test_sums_are_weighted_as_well(collective: str | None, size: int) -> None:
    values, weights = fixed_updates(size, STEPS, seed=size), [*WEIGHTS[1:size], 2.0]
    expected = np.tensordot(weights, values, axes=1)
    assert relative(reduced(made(SUM, collective), values, weights, seed=0), [expected] * size) < 1e-12


@every_collective
@every_size
@pytest.mark.parametrize("op", [MEAN, SUM])
def test_a_weight_of_zero_keeps_even_infinities_out(collective: str | None, size: int, op: str) -> None:
    values, weights = fixed_updates(size, STEPS, seed=size), list(WEIGHTS[:size])
    if not sum(weights):
        weights[-1] = 1.0
    values[np.array(weights) == 0] = np.nan
    present = np.array(weights) > 0
    total = np.tensordot(np.array(weights)[present], values[present], axes=1)
    expected = total / sum(weights) if op == MEAN else total
    assert relative(reduced(made(op, collective), values, weights, seed=1), [expected] * size) < 1e-12


@every_collective
@every_size
def test_nobodys_weight_leaves_everybodys_own_values(collective: str | None, size: int) -> None:
    values = fixed_updates(size, STEPS, seed=size)
    assert np.array_equal(reduced(made(MEAN, collective), values, [0.0] * size, seed=2), values)
