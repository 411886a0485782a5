"""Recipes of update rules."""

import re

import pytest

from weft.core.errors import ConfigError
from weft.core.rules import LBFGS, SGD, AdaGrad, Adam, Momentum, Rule


@pytest.mark.parametrize("rule", [SGD, Momentum, AdaGrad, Adam, LBFGS])
@pytest.mark.parametrize("lr", [-0.1, float("nan")])
def test_a_learning_rate_below_zero_is_refused(rule: type[Rule], lr: float) -> None:
    expected = re.escape(f"lr is {lr!r}, but a learning rate is at least 0.\n  Write e.g. lr=0.1.")
    with pytest.raises(ConfigError, match=f"^{expected}$"):
        rule(lr=lr)


def test_a_learning_rate_of_zero_is_legal_and_may_change_while_training() -> None:
    rule = SGD(lr=0.0)
    rule.lr = 0.5
    assert rule == SGD(lr=0.5)


def test_the_usual_hyper_parameters_need_not_be_said() -> None:
    assert Momentum(lr=0.1) == Momentum(0.1, momentum=0.9, nesterov=False)
    assert AdaGrad(lr=0.1) == AdaGrad(0.1, epsilon=1e-10)
    assert Adam(lr=0.1) == Adam(0.1, beta1=0.9, beta2=0.999, epsilon=1e-8)
    assert LBFGS() == LBFGS(lr=1.0, history=10)
    assert SGD(lr=0.1) != Momentum(lr=0.1)


def test_lbfgs_remembers_at_least_one_step() -> None:
    with pytest.raises(ConfigError) as refused:
        LBFGS(history=0)
    assert str(refused.value) == "history is 0, but L-BFGS remembers at least 1 step.\n  Write e.g. history=10."
