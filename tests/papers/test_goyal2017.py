"""Goyal et al. 2017, "Accurate, Large Minibatch SGD": synchronous SGD by all-reduce."""

from typing import Any

import numpy as np
import pytest
from support.simulated.problems import SIZES, LeastSquares, relative
from support.simulated.weather import storm

from weft.core.rules import SGD, AdaGrad, Adam, Momentum, Rule
from weft.strategies import AllReduce
from weft.testing.worlds import simulate_arrays

RULES = (SGD(0.1), Momentum(0.05), Momentum(0.05, nesterov=True), Adam(0.05), AdaGrad(0.3))


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("num_workers", [2, 5])
def test_many_workers_equal_one_worker_on_the_union_of_their_batches(num_workers: int, rule: Rule) -> None:
    problem = LeastSquares(SIZES[:num_workers])
    options: dict[str, Any] = {"num_steps": 40, "rule": rule}
    many = simulate_arrays(
        AllReduce(), num_workers, problem.gradient, samples=problem.sizes, starts=problem.starts(), **options
    )
    one = simulate_arrays(AllReduce(), 1, problem.union, samples=sum(problem.sizes), starts=[problem.start], **options)
    assert relative(many.result[0], one.result[0]) < 1e-9
    assert problem.loss(many.result[0]) < 0.5 * problem.loss(problem.start)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_all_workers_stay_bit_equal(kind: type) -> None:
    problem = LeastSquares(SIZES[:7])
    ran = simulate_arrays(
        AllReduce(),
        7,
        lambda worker, step, named: {"v": problem.gradient(worker, step, named["v"])},
        num_steps=50,
        samples=problem.sizes,
        starts=[{"v": problem.start.astype(kind)}] * 7,
        rule=Momentum(0.05),
        **storm(7, seed=3),
    )
    assert ran.params[0][0].dtype == kind
    assert all(np.array_equal(ran.params[worker][0], ran.params[0][0]) for worker in range(7))


def test_a_worker_without_samples_counts_for_nothing() -> None:
    problem = LeastSquares((4, 4))
    options: dict[str, Any] = {"num_steps": 20, "rule": SGD(0.1)}
    both = simulate_arrays(AllReduce(), 2, problem.gradient, samples=[4.0, 0.0], starts=problem.starts(), **options)
    first = simulate_arrays(AllReduce(), 1, problem.gradient, samples=4.0, starts=[problem.start], **options)
    assert np.array_equal(both.params[1][0], first.params[0][0])
