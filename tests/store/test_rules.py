"""The maths of the update rules, against the formulas by hand."""

from math import sqrt

import numpy as np
import pytest

from weft.core.rules import SGD, AdaGrad, Adam, Momentum, Rule
from weft.store.rules import State, update

GRADIENTS = (2.0, -1.0, 0.5)


def trained(rule: Rule, scale: float = 1.0) -> list[float]:
    """The parameter after each of three gradients, from 1.0."""
    w, state, seen = np.ones(1), State(), []
    for g in GRADIENTS:
        update(rule, w, np.array([g]), scale, state)
        seen.append(float(w[0]))
    return seen


def test_sgd_steps_against_the_gradient() -> None:
    assert trained(SGD(lr=0.1)) == pytest.approx([0.8, 0.9, 0.85], rel=1e-15)


def test_momentum_remembers_its_velocity() -> None:
    velocities = [2.0, 0.5 * 2.0 - 1.0, 0.5 * 0.0 + 0.5]
    expected = 1.0 - 0.1 * np.cumsum(velocities)
    assert trained(Momentum(lr=0.1, momentum=0.5)) == pytest.approx(expected, rel=1e-15)


def test_nesterov_momentum_looks_ahead() -> None:
    steps = [2.0 + 0.5 * 2.0, -1.0 + 0.5 * 0.0, 0.5 + 0.5 * 0.5]
    expected = 1.0 - 0.1 * np.cumsum(steps)
    assert trained(Momentum(lr=0.1, momentum=0.5, nesterov=True)) == pytest.approx(expected, rel=1e-15)


def test_adagrad_divides_by_the_root_of_all_squares() -> None:
    steps = [2.0 / sqrt(4.0), -1.0 / sqrt(5.0), 0.5 / sqrt(5.25)]
    assert trained(AdaGrad(lr=0.1, epsilon=0.0)) == pytest.approx(1.0 - 0.1 * np.cumsum(steps), rel=1e-14)


def test_adam_corrects_the_bias_of_its_means() -> None:
    w, m, v, expected = 1.0, 0.0, 0.0, []
    for count, g in enumerate(GRADIENTS, 1):
        m = 0.9 * m + 0.1 * g
        v = 0.99 * v + 0.01 * g * g
        w -= 0.1 * (m / (1 - 0.9**count)) / (sqrt(v / (1 - 0.99**count)) + 1e-8)
        expected.append(w)
    assert trained(Adam(lr=0.1, beta1=0.9, beta2=0.99)) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("rule", [SGD(lr=0.3), Momentum(lr=0.3), AdaGrad(lr=0.3), Adam(lr=0.3)], ids=repr)
def test_scale_multiplies_the_learning_rate_only(rule: Rule) -> None:
    slower = type(rule)(lr=0.3 * 0.5)
    assert trained(rule, scale=0.5) == trained(slower)


@pytest.mark.parametrize("rule", [SGD(lr=0.3), Momentum(lr=0.3), AdaGrad(lr=0.3), Adam(lr=0.3)], ids=repr)
def test_an_update_is_in_place_keeps_the_type_and_leaves_the_gradient_alone(rule: Rule) -> None:
    w, g = np.ones(3, np.float32), np.arange(1, 4, dtype=np.float32)
    view = w[:]
    update(rule, w, g, 1.0, {})
    assert w.dtype == np.float32
    assert (view < 1).all()
    assert g.tolist() == [1, 2, 3]


def test_rules_with_a_memory_keep_it_in_the_state_they_are_given() -> None:
    kept = {}
    for rule in (SGD(lr=0.1), Momentum(lr=0.1), AdaGrad(lr=0.1), Adam(lr=0.1)):
        state: State = {}
        update(rule, np.ones(2), np.ones(2), 1.0, state)
        kept[type(rule)] = sorted(state)
    assert kept == {SGD: [], Momentum: ["velocity"], AdaGrad: ["squares"], Adam: ["count", "mean", "squares"]}
