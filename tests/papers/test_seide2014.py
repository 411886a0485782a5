"""Seide et al. 2014, "1-bit stochastic gradient descent and its application to data-parallel distributed training of
speech DNNs"."""

import numpy as np
import pytest
from support.oracles.compressed import descend, noisy_bowl

from weft.codecs import Form, OneBit, Turn


def test_the_values_of_the_two_kinds_minimize_the_square_error() -> None:
    """The reconstruction values are the means of what each stands for."""
    values, said = np.random.default_rng(0).exponential(size=256) - 0.5, np.empty(256)
    OneBit(256).decode(OneBit(256).encode(values, None, Form(256, 8), Turn()).payload, said, Form(256, 8))
    high = values >= 0
    best = ((said - values) ** 2).sum()
    for moved in (np.where(high, 1e-3, 0), np.where(high, -1e-3, 0), np.where(high, 0, 1e-3), np.where(high, 0, -1e-3)):
        assert ((said + moved - values) ** 2).sum() > best


def test_no_gradient_is_lost_it_is_only_delayed() -> None:
    """Error feedback: the quantization error is added to the next minibatch's gradient."""
    rng, residual, sent, total = np.random.default_rng(0), np.zeros(300), np.zeros(300), np.zeros(300)
    for step in range(200):
        gradient = rng.standard_normal(300)
        total += gradient
        OneBit(64).add(OneBit(64).encode(gradient, residual, Form(300, 8), Turn(step)).payload, sent, 1.0, Form(300, 8))
    np.testing.assert_allclose(sent + residual, total, atol=1e-10)
    assert np.abs(residual).max() < 20


def test_with_feedback_it_reaches_the_accuracy_of_full_precision_and_without_it_does_not() -> None:
    """Gradients can be quantized to one bit with no or almost no loss of accuracy, if the error is carried forward."""
    gradient, target = noisy_bowl()

    def error(codec: OneBit | None) -> float:
        keeps = codec is not None and codec.wants_feedback
        return float(np.linalg.norm(descend(codec, gradient, np.zeros(64), 0.02, 1500, keeps_residual=keeps) - target))

    full = error(None)
    assert error(OneBit(64)) == pytest.approx(full, rel=0.25)
    assert error(OneBit(64, feedback=False)) > 3 * full


def test_a_gradient_is_32_times_smaller_but_for_the_means() -> None:
    form = Form(1 << 20)
    assert OneBit().size(form) - form.num_bytes // 32 == 2 * 4 * form.num_elements // OneBit().block
