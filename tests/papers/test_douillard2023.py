"""Douillard et al. 2023, "DiLoCo: Distributed Low-Communication Training of Language Models"."""

import numpy as np
import pytest
from support.simulated.outer_steps import PERIOD, by_hand, run
from support.simulated.problems import SIZES, Array, LeastSquares, relative
from support.simulated.weather import storm

from weft.core.rules import SGD, Momentum, Rule
from weft.strategies import AllReduce, DiLoCo, LocalSGD


@pytest.mark.parametrize("rule", [SGD(0.1), Momentum(0.02)], ids=repr)
@pytest.mark.parametrize("num_workers", [1, 2, 5])
@pytest.mark.parametrize("outer", ["nesterov", "momentum"])
def test_an_outer_step_of_1_without_momentum_is_local_sgd(outer: str, num_workers: int, rule: Rule) -> None:
    plain = run(LocalSGD(PERIOD), num_workers, num_steps=22, rule=rule)
    outered = run(
        DiLoCo(PERIOD, outer, lr=1.0, momentum=0.0), num_workers, num_steps=22, rule=rule, **storm(num_workers, 2)
    )
    assert all(relative(a[0], b[0]) < 1e-12 for a, b in zip(outered.params, plain.params, strict=True))


@pytest.mark.parametrize("num_workers", [1, 4])
def test_the_outer_gradient_is_the_mean_change_and_the_outer_optimizer_is_nesterovs(num_workers: int) -> None:
    velocity = np.zeros(5)

    def outer(start: Array, mean: Array) -> Array:
        nonlocal velocity
        gradient = start - mean
        velocity = 0.9 * velocity + gradient
        return start - 0.7 * (gradient + 0.9 * velocity)

    ran = run(DiLoCo(PERIOD, momentum=0.9), num_workers)
    expected = by_hand(num_workers, outer)
    assert all(relative(params[0], expected) < 1e-12 for params in ran.params)


def test_it_sends_period_times_less_than_all_reduce_and_learns() -> None:
    problem = LeastSquares(SIZES[:4])
    reduced = run(AllReduce(), 4, num_steps=100)
    rare = run(DiLoCo(period=10, momentum=0.5), 4, num_steps=100)
    assert rare.facts.bytes_sent * 10 == reduced.facts.bytes_sent
    assert problem.loss(rare.result[0]) < 0.05 * problem.loss(problem.start)
