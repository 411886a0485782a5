"""Wang et al. 2020, "SlowMo: Improving communication-efficient distributed SGD with slow momentum"."""

import numpy as np
import pytest
from support.simulated.outer_steps import LR, PERIOD, by_hand, run
from support.simulated.problems import Array, relative
from support.simulated.weather import storm

from weft.core.rules import SGD, Momentum, Rule
from weft.strategies import LocalSGD, SlowMo


@pytest.mark.parametrize("rule", [SGD(0.1), Momentum(0.02)], ids=repr)
@pytest.mark.parametrize("num_workers", [1, 2, 5])
def test_alpha_1_and_beta_0_is_local_sgd(num_workers: int, rule: Rule) -> None:
    plain = run(LocalSGD(PERIOD), num_workers, num_steps=22, rule=rule)
    slow = run(SlowMo(PERIOD, alpha=1.0, beta=0.0), num_workers, num_steps=22, rule=rule, **storm(num_workers, 2))
    assert all(relative(a[0], b[0]) < 1e-12 for a, b in zip(slow.params, plain.params, strict=True))


@pytest.mark.parametrize("num_workers", [1, 4])
def test_the_slow_momentum_divides_by_the_learning_rate_and_multiplies_by_it_again(num_workers: int) -> None:
    """Lines 7 and 8 of algorithm 1, with the γ that Weft never asks for."""
    alpha, beta, slow = 0.9, 0.6, np.zeros(5)

    def outer(start: Array, mean: Array) -> Array:
        nonlocal slow
        slow = beta * slow + (start - mean) / LR
        return start - alpha * LR * slow

    ran = run(SlowMo(PERIOD, alpha, beta), num_workers)
    expected = by_hand(num_workers, outer)
    assert all(relative(params[0], expected) < 1e-12 for params in ran.params)
