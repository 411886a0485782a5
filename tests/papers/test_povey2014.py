"""Povey et al. 2014, "Parallel training of DNNs with natural gradient and parameter averaging": local SGD."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.simulated.problems import SIZES, LeastSquares, relative
from support.simulated.weather import storm

from weft.adapters.array_replica import ArrayReplica
from weft.core.rules import SGD, Momentum, Rule
from weft.sim.program import BackwardDone, Request, StepDone
from weft.strategies import AllReduce, LocalSGD
from weft.testing.worlds import simulate_arrays


@pytest.mark.parametrize("rule", [SGD(0.1), Momentum(0.05), Momentum(0.05, nesterov=True)], ids=repr)
@pytest.mark.parametrize("num_workers", [1, 2, 5])
def test_averaging_after_every_step_equals_all_reduce(num_workers: int, rule: Rule) -> None:
    problem = LeastSquares(SIZES[:num_workers])
    options: dict[str, Any] = {"num_steps": 60, "samples": problem.sizes, "starts": problem.starts(), "rule": rule}
    reduced = simulate_arrays(AllReduce(), num_workers, problem.gradient, **options)
    averaged = simulate_arrays(LocalSGD(period=1), num_workers, problem.gradient, **options, **storm(num_workers, 1))
    assert all(relative(params[0], reduced.result[0]) < 1e-9 for params in averaged.params)


@pytest.mark.parametrize(("rule", "is_equal"), [(SGD(0.1), True), (Momentum(0.05), False)], ids=str)
def test_shares_that_change_from_step_to_step_are_right_for_sgd_and_not_for_momentum(
    rule: Rule, is_equal: bool
) -> None:
    problem = LeastSquares([8] * 3)
    sizes = np.random.default_rng(0).integers(1, 9, size=(3, 60))

    def script(rank: int, replica: ArrayReplica) -> Iterator[Request]:
        w = replica.views()["w"]
        for step, size in enumerate(sizes[rank]):
            replica.take({"w": problem.mean_gradient(problem.rows(rank, step)[:size], w)})
            yield BackwardDone(float(size))
            yield StepDone(float(size), None)

    options: dict[str, Any] = {"script": script, "starts": problem.starts(), "rule": rule}
    reduced = simulate_arrays(AllReduce(), 3, **options)
    averaged = simulate_arrays(LocalSGD(period=1), 3, **options)
    difference = relative(averaged.result[0], reduced.result[0])
    assert difference < 1e-9 if is_equal else difference > 1e-4


def test_workers_train_alone_and_become_their_mean_by_samples_after_every_period() -> None:
    problem = LeastSquares(SIZES[:3])
    ran = simulate_arrays(
        LocalSGD(period=4),
        3,
        problem.gradient,
        num_steps=12,
        samples=problem.sizes,
        starts=problem.starts(),
        rule=SGD(0.1),
    )
    mean = problem.start
    for start in range(0, 12, 4):
        replicas = [mean.copy() for _ in range(3)]
        for step in range(start, start + 4):
            for worker, w in enumerate(replicas):
                w -= 0.1 * problem.gradient(worker, step, w)
        mean = np.average(replicas, axis=0, weights=problem.sizes)
    assert all(relative(params[0], mean) < 1e-12 for params in ran.params)


def test_between_two_averages_replicas_differ() -> None:
    problem = LeastSquares(SIZES[:3])
    ran = simulate_arrays(LocalSGD(period=4), 3, problem.gradient, num_steps=6, starts=problem.starts())
    assert relative(ran.params[0][0], ran.params[1][0]) > 1e-3


def test_a_longer_period_sends_less_and_still_converges() -> None:
    problem = LeastSquares(SIZES[:4])
    runs = {
        period: simulate_arrays(
            LocalSGD(period=period),
            4,
            problem.gradient,
            num_steps=160,
            samples=problem.sizes,
            starts=problem.starts(),
            rule=SGD(0.05),
        )
        for period in (1, 16)
    }
    assert runs[16].facts.bytes_sent * 16 == runs[1].facts.bytes_sent
    assert all(problem.loss(ran.result[0]) < 0.05 * problem.loss(problem.start) for ran in runs.values())
