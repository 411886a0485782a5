"""Chen & Huo 2016, "Scalable training of deep learning machines by incremental block training with
intra-block parallel optimization and blockwise model-update filtering": BMUF."""

import numpy as np
import pytest
from support.simulated.outer_steps import PERIOD, by_hand, run
from support.simulated.problems import Array, relative
from support.simulated.weather import storm

from weft.core.rules import SGD, Momentum, Rule
from weft.strategies import BMUF, LocalSGD


@pytest.mark.parametrize("rule", [SGD(0.1), Momentum(0.02)], ids=repr)
@pytest.mark.parametrize("num_workers", [1, 2, 5])
@pytest.mark.parametrize("nesterov", [False, True])
def test_without_block_momentum_it_is_model_averaging(nesterov: bool, num_workers: int, rule: Rule) -> None:
    plain = run(LocalSGD(PERIOD), num_workers, num_steps=22, rule=rule)
    recipe = BMUF(PERIOD, block_momentum=0.0, block_lr=1.0, nesterov=nesterov)
    filtered = run(recipe, num_workers, num_steps=22, rule=rule, **storm(num_workers, 2))
    assert all(relative(a[0], b[0]) < 1e-12 for a, b in zip(filtered.params, plain.params, strict=True))


@pytest.mark.parametrize("nesterov", [False, True])
def test_the_global_model_moves_by_the_filtered_update_and_nesterovs_block_sets_out_ahead_of_it(nesterov: bool) -> None:
    """W(t) = W(t-1) + D(t), D(t) = η D(t-1) + ζ G(t), G(t) = mean(t) - W_g(t-1); W_g = W, or W + η D."""
    eta, zeta = 0.6, 0.8
    delta, model = np.zeros(5), None

    def outer(start: Array, mean: Array) -> Array:
        nonlocal delta, model
        delta = eta * delta + zeta * (mean - start)
        model = (start if model is None else model) + delta
        return model + eta * delta if nesterov else model

    ran = run(BMUF(PERIOD, eta, zeta, nesterov), 4)
    expected = by_hand(4, outer)
    assert all(relative(params[0], expected) < 1e-12 for params in ran.params)
