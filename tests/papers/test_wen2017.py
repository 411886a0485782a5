"""Wen et al. 2017, "TernGrad: ternary gradients to reduce communication in distributed deep learning"."""

import numpy as np
from support.oracles.compressed import many_draws, within_standard_errors

from weft.codecs import Form, TernGrad, Turn

VALUES = np.random.default_rng(0).standard_normal(64)


def test_the_ternary_gradient_is_unbiased() -> None:
    """E[ternarize(g)] = g. Without clipping."""
    assert within_standard_errors(many_draws(TernGrad(100.0, block=64), VALUES, 10_000), VALUES)


def test_with_clipping_it_is_unbiased_for_the_clipped_gradient() -> None:
    """What is beyond c sigma becomes c sigma."""
    limit = 1.5 * np.sqrt((VALUES**2).mean())
    assert np.abs(VALUES).max() > limit
    draws = many_draws(TernGrad(1.5, block=64), VALUES, 10_000)
    assert within_standard_errors(draws, np.clip(VALUES, -limit, limit))


def test_numbers_are_minus_s_zero_or_s() -> None:
    draws = many_draws(TernGrad(100.0, block=64), VALUES, 100)
    largest = np.abs(VALUES).max()
    assert set(np.unique(draws).tolist()) == {-largest, 0.0, largest}


def test_with_a_shared_scale_the_mean_of_n_workers_has_2n_plus_1_values() -> None:
    """Scaler sharing: the maximum of the workers' scalers."""
    workers, form, codec = np.random.default_rng(1).standard_normal((4, 1000)), Form(1000, 8), TernGrad()
    agreed, *others = (codec.peaks.encode(values, None, form, Turn()).payload for values in workers)
    for other in others:
        codec.peaks.merge(agreed, 1.0, other, 1.0, form)
    total = np.zeros(1000)
    for worker, values in enumerate(workers):
        codec.add(codec.encode(values, None, form, Turn(draw=worker << 40), agreed).payload, total, 1.0, form)
    multiples = total / agreed.view(np.float64)[0]
    np.testing.assert_allclose(multiples, np.rint(multiples), atol=1e-12)
    assert np.abs(multiples).max() <= 4


def test_layers_have_scales_of_their_own() -> None:
    """Layer-wise ternarizing: a small layer is not lost beside a large one."""
    values, said = np.concatenate([np.full(50, 1e-3), np.full(50, 10.0)]), np.empty(100)
    form = Form(100, 8, ((0, (50,)), (50, (50,))))
    TernGrad().decode(TernGrad().encode(values, None, form, Turn()).payload, said, form)
    np.testing.assert_allclose(said, values, rtol=1e-12)
