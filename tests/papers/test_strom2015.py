"""Strom 2015, "Scalable distributed DNN training using commodity GPU cloud computing"."""

import numpy as np
import pytest
from support.oracles.compressed import descend, noisy_bowl

from weft.codecs import Form, Threshold, Turn


def test_only_numbers_beyond_the_threshold_are_sent_and_the_rest_gathers() -> None:
    """Gradient residuals gather until they pass the threshold."""
    rng, residual, sent, total = np.random.default_rng(0), np.zeros(500), np.zeros(500), np.zeros(500)
    for step in range(100):
        gradient, said = rng.integers(-8, 9, 500) / 16, np.zeros(500)
        total += gradient
        payload = Threshold(2.0).encode(gradient, residual, Form(500, 8), Turn(step)).payload
        Threshold(2.0).decode(payload, said, Form(500, 8))
        assert (np.abs(said[said != 0]) >= 2).all()
        assert (np.abs(residual) < 2).all()
        sent += said
    np.testing.assert_array_equal(sent + residual, total)


@pytest.mark.slow
def test_residuals_are_what_training_needs() -> None:
    gradient, target = noisy_bowl()
    dense, kept, forgotten = (
        np.linalg.norm(descend(codec, gradient, np.zeros(64), 0.02, 1500, keeps_residual=keeps) - target)
        for codec, keeps in ((None, False), (Threshold(3.0), True), (Threshold(3.0), False))
    )
    assert kept == pytest.approx(dense, rel=0.2)
    assert forgotten > 3 * dense
