"""Zheng et al. 2016, "Asynchronous Stochastic Gradient Descent with Delay Compensation"."""

import numpy as np
import pytest
from support.simulated.problems import SIZES, LeastSquares, relative
from support.simulated.weather import storm

from weft.core.events import Received
from weft.core.rules import SGD, Momentum, Rule
from weft.sim.compute import Trace
from weft.strategies import AsyncSGD, DelayCompensated
from weft.testing.worlds import Ran, simulate_arrays


def run(recipe: AsyncSGD, rule: Rule, seed: int = 2) -> Ran:
    problem = LeastSquares(SIZES[:5])
    return simulate_arrays(
        recipe,
        5,
        problem.gradient,
        num_steps=50,
        samples=problem.sizes,
        starts=problem.starts(),
        rule=rule,
        **storm(5, seed),
    )


@pytest.mark.parametrize("rule", [SGD(0.2), Momentum(0.05)], ids=repr)
def test_a_lambda_of_0_is_plain_asynchronous_sgd_bit_for_bit(rule: Rule) -> None:
    plain, compensated = run(AsyncSGD(), rule), run(DelayCompensated(compensation=0.0), rule)
    assert np.array_equal(plain.result[0], compensated.result[0])
    assert not np.array_equal(plain.result[0], run(DelayCompensated(), rule).result[0])


def test_the_server_follows_the_formula() -> None:
    """The order of pushes is that of the recording; the rest is computed here, in numpy alone."""
    problem, rate, strength = LeastSquares(SIZES[:5]), 0.2, 0.5
    ran = run(DelayCompensated(compensation=strength), SGD(rate))
    w = problem.start.copy()
    then = {worker: w.copy() for worker in ran.world.workers}
    pushes = [
        (event, [action.scale for action in actions if type(action).__name__ == "Apply"])
        for _, node, event, actions in ran.recording.entries
        if node in ran.world.servers and isinstance(event, Received)
    ]
    assert len(pushes) == 250
    for event, (scale,) in pushes:
        worker = event.source
        g = problem.gradient(worker, event.clock, then[worker])
        w = w - rate * scale * (g + strength * g * g * (w - then[worker]))
        then[worker] = w.copy()
    assert relative(ran.result[0], w) < 1e-12


def test_where_the_square_is_the_second_derivative_the_compensated_gradient_is_that_of_now() -> None:
    """f = exp(w) has f' = f'' = f; at w = 0 the term λ g⊙g with λ = 1 is the second derivative itself."""

    def slope(worker: int, step: int, w: np.ndarray) -> np.ndarray:
        return np.exp(w)

    errors = []
    for recipe in (AsyncSGD(), DelayCompensated(compensation=1.0)):
        ran = simulate_arrays(recipe, 2, slope, num_steps=1, rule=SGD(0.02), compute=Trace([[1.0], [2.0]]))
        first = -0.02 / 2
        errors.append(abs(float(ran.result[0][0]) - (first - 0.02 / 2 * np.exp(first))))
    assert errors[1] < 0.01 * errors[0]


def test_it_converges() -> None:
    problem = LeastSquares(SIZES[:5])
    assert problem.loss(run(DelayCompensated(), SGD(0.2)).result[0]) < 0.05 * problem.loss(problem.start)
