"""Zhang et al. 2015, "Staleness-aware Async-SGD for Distributed Deep Learning"."""

from typing import Any

import numpy as np
import pytest
from support.simulated.problems import SIZES, LeastSquares

from weft.core.rules import SGD, Adam, Rule
from weft.sim.compute import Trace
from weft.strategies import AsyncSGD
from weft.testing.worlds import simulate_arrays


def test_a_gradient_of_age_tau_moves_the_parameters_by_one_tau_th() -> None:
    """Worker 1 computes while worker 0 makes τ updates; everything before its push is known."""
    for tau in (1, 2, 5):
        steps = [1.0] * tau + [99.0]
        ran = simulate_arrays(
            AsyncSGD(late="damp"),
            2,
            lambda worker, step, w: np.full(1, -float(worker)),
            num_steps=1 + tau,
            rule=SGD(2.0),
            compute=Trace([steps, [tau + 0.5]]),
        )
        first = next(
            actions[2].scale
            for _, node, event, actions in ran.recording.entries
            if node == 2 and getattr(event, "source", None) == 1
        )
        assert first == pytest.approx(0.5 / tau)


@pytest.mark.parametrize("rule", [SGD(0.1), Adam(0.02)], ids=repr)
def test_gradients_that_are_at_most_one_version_old_are_unchanged(rule: Rule) -> None:
    problem = LeastSquares(SIZES[:2])
    options: dict[str, Any] = {"num_steps": 40, "samples": problem.sizes, "starts": problem.starts(), "rule": rule}
    turns = Trace([[1.0], [1.0]])
    plain, damped = (
        simulate_arrays(AsyncSGD(late=late), 2, problem.gradient, compute=turns, **options)
        for late in ("apply", "damp")
    )
    assert np.array_equal(plain.result[0], damped.result[0])


@pytest.mark.slow
def test_damping_keeps_a_learning_rate_stable_that_staleness_makes_diverge() -> None:
    problem = LeastSquares(SIZES[:12])
    together = Trace([[1.0]] * 12)
    options: dict[str, Any] = {"num_steps": 60, "samples": problem.sizes, "starts": problem.starts(), "rule": SGD(3.0)}
    with np.errstate(all="ignore"):
        plain, damped = (
            simulate_arrays(AsyncSGD(late=late), 12, problem.gradient, compute=together, **options)
            for late in ("apply", "damp")
        )
        loss = problem.loss(plain.result[0])
    assert not loss < problem.loss(problem.start)
    assert problem.loss(damped.result[0]) < 0.1 * problem.loss(problem.start)
