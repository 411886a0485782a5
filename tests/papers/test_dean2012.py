"""Dean et al. 2012, "Large Scale Distributed Deep Networks", section 4.1: Downpour SGD."""

import numpy as np
import pytest
from problems import SIZES, LeastSquares, relative
from weather import storm
from worlds import simulate_arrays

from weft.core.rules import SGD, AdaGrad, Adam, Momentum, Rule
from weft.sim.compute import Trace
from weft.strategies import AllReduce, Downpour


@pytest.mark.parametrize("rule", [SGD(0.1), Momentum(0.05), Adam(0.05)], ids=repr)
def test_push_and_fetch_of_1_with_one_worker_equal_sgd(rule: Rule) -> None:
    problem = LeastSquares([4])
    options = {"num_steps": 200, "samples": 4.0, "starts": problem.starts(), "rule": rule}
    alone = simulate_arrays(AllReduce(), 1, problem.gradient, **options)
    served = simulate_arrays(Downpour(push=1, fetch=1), 1, problem.gradient, **options, **storm(1, 0))
    assert relative(served.result[0], alone.result[0]) < 1e-9
    assert np.array_equal(served.params[0][0], served.result[0])


def test_a_worker_never_waits_for_another() -> None:
    recipe = Downpour(push=2, fetch=3)
    hosts = (0, 1, 2, 3)
    alone = simulate_arrays(recipe, 1, num_steps=30, compute=Trace([[1.0]]), hosts=(0, 1))
    asleep = Trace([[1.0], [1e4], [1e5]])
    among_sleepers = simulate_arrays(recipe, 3, num_steps=30, compute=asleep, hosts=hosts)
    assert among_sleepers.facts.finished_s[0] == alone.facts.finished_s[0]


def test_a_worker_waits_for_its_own_fetch_only_when_it_fetches() -> None:
    never = simulate_arrays(Downpour(push=1, fetch=100), 1, num_steps=30, compute=Trace([[1.0]]), hosts=(0, 1))
    assert never.facts.finished_s[0] == pytest.approx(30.0, abs=1e-12)
    always = simulate_arrays(Downpour(push=1, fetch=1), 1, num_steps=30, compute=Trace([[1.0]]), hosts=(0, 1))
    there_and_back_s = 30 * 2 * 1e-3
    assert always.facts.finished_s[0] > 30.0 + there_and_back_s


def test_a_push_carries_the_sum_of_the_gradients_since_the_last() -> None:
    updates = np.arange(1.0, 7.0)
    ran = simulate_arrays(
        Downpour(push=3, fetch=3), 1, lambda worker, step, w: updates[[step]], num_steps=6, rule=SGD(0.5)
    )
    assert ran.result[0] == pytest.approx([-0.5 * updates.sum()])
    assert ran.params[0][0] == pytest.approx(ran.result[0])


def test_gradients_that_were_not_pushed_never_reach_the_servers() -> None:
    ran = simulate_arrays(Downpour(push=4, fetch=4), 1, lambda worker, step, w: np.ones(1), num_steps=6, rule=SGD(0.5))
    assert ran.result[0] == pytest.approx([-2.0])
    assert ran.params[0][0] == pytest.approx([-3.0])


def test_adagrad_runs_at_the_server_with_a_rate_of_its_own() -> None:
    problem = LeastSquares([4])
    recipe = Downpour(server=AdaGrad(0.3))
    ran = simulate_arrays(
        recipe, 1, problem.gradient, num_steps=50, samples=4.0, starts=problem.starts(), rule=SGD(0.01)
    )
    w, squares = problem.start.copy(), np.zeros(5)
    for step in range(50):
        g = problem.gradient(0, step, w)
        squares += g * g
        w -= 0.3 * g / (np.sqrt(squares) + 1e-10)
    assert relative(ran.result[0], w) < 1e-12


def test_each_shard_keeps_the_adagrad_state_of_its_own_bucket() -> None:
    updates = {"v": np.array([1.0, 4.0]), "w": np.array([2.0, 0.5], np.float32)}

    def gradient(worker: int, step: int, named: object) -> dict[str, np.ndarray]:
        return {name: update[[step]] for name, update in updates.items()}

    starts = [{"v": np.zeros(1), "w": np.zeros(1, np.float32)}]
    recipe = Downpour(servers=2, server=AdaGrad(1.0))
    ran = simulate_arrays(recipe, 1, gradient, num_steps=2, starts=starts)
    single, double = (float(array[0]) for array in ran.result)
    assert double == pytest.approx(-1.0 - 4.0 / np.sqrt(17.0))
    assert single == pytest.approx(-1.0 - 0.5 / np.sqrt(4.25), rel=1e-6)


@pytest.mark.parametrize("server", [None, AdaGrad(0.6)], ids=repr)
def test_many_workers_converge_whatever_the_delays(server: Rule | None) -> None:
    problem = LeastSquares(SIZES[:6])
    ran = simulate_arrays(
        Downpour(push=2, fetch=3, servers=2, server=server),
        6,
        problem.gradient,
        num_steps=200,
        samples=problem.sizes,
        starts=problem.starts(),
        rule=SGD(0.05),
        **storm(6, 2),
    )
    assert problem.loss(ran.result[0]) < 0.05 * problem.loss(problem.start)
