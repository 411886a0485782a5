"""Alistarh et al. 2017, "QSGD: communication-efficient SGD via gradient quantization and encoding"."""

import numpy as np
import pytest
from support.oracles.compressed import descend, many_draws, noisy_bowl, within_standard_errors

from weft.codecs import QSGD, Form

VALUES = np.random.default_rng(0).standard_normal(64)


@pytest.mark.parametrize("levels", [1, 4, 7, 127])
def test_the_quantized_gradient_is_unbiased(levels: int) -> None:
    """Lemma 3.1 (i): E[Q_s(v)] = v."""
    assert within_standard_errors(many_draws(QSGD(levels, 64), VALUES, 10_000), VALUES)


@pytest.mark.parametrize("levels", [1, 4, 7])
def test_the_variance_is_bounded_by_a_quarter_of_a_step_squared(levels: int) -> None:
    """Lemma 3.1 (ii), for the maximum norm: each number lies between two levels of largest / s."""
    variances = many_draws(QSGD(levels, 64), VALUES, 10_000).var(axis=0)
    assert (variances <= (np.abs(VALUES).max() / levels) ** 2 / 4 * 1.05).all()


def test_with_one_level_few_numbers_are_not_zero() -> None:
    """Lemma 3.1 (iii), for the maximum norm: |v|_1 / largest of them are expected."""
    draws = many_draws(QSGD(1, 64), VALUES, 10_000)
    expected = np.abs(VALUES).sum() / np.abs(VALUES).max()
    assert (draws != 0).sum(axis=1).mean() == pytest.approx(expected, rel=0.01)


def test_four_bits_and_a_scale_for_each_bucket_are_sent() -> None:
    """Section 4: 4 bits and buckets of 512."""
    assert QSGD(7, 512).size(Form(1 << 20)) == (1 << 20) // 2 + 4 * (1 << 11)


def test_training_needs_no_feedback() -> None:
    gradient, target = noisy_bowl()
    dense, coded = (
        descend(codec, gradient, np.zeros(64), 0.02, 1500, keeps_residual=False) for codec in (None, QSGD(7, 64))
    )
    assert np.linalg.norm(coded - target) < 1.2 * np.linalg.norm(dense - target)
