"""Xie et al. 2016, "Lighter-communication distributed machine learning via sufficient factor broadcasting"."""

import numpy as np

from weft.codecs import Factors, Form, Turn


def test_the_gradient_is_the_sum_of_outer_products_of_its_factors() -> None:
    """Each sample's update of a matrix is an outer product u v^T."""
    rng = np.random.default_rng(0)
    errors, activations = rng.standard_normal((8, 200)), rng.standard_normal((8, 300))
    gradient = sum(np.outer(error, activation) for error, activation in zip(errors, activations)).reshape(-1)
    form, said = Form(60_000, 8, ((0, (200, 300)),)), np.empty(60_000)
    payload = Factors().encode(gradient, None, form, Turn(), [(0, errors, activations)]).payload
    Factors().decode(payload, said, form)
    assert np.abs(said - gradient).max() <= 1e-6 * np.abs(gradient).max()
    assert len(payload) == 8 + 8 * 8 * (200 + 300)


def test_factors_grow_with_sides_and_matrices_with_their_product() -> None:
    """O(J + D) instead of O(J D); as Poseidon does, whichever is shorter is sent."""
    for batch, is_factors in ((1, True), (4, True), (5, False), (64, False)):
        errors, activations = np.ones((batch, 10), np.float32), np.ones((batch, 10), np.float32)
        gradient, form = (errors.T @ activations).reshape(-1), Form(100, 4, ((0, (10, 10)),))
        payload = Factors().encode(gradient, None, form, Turn(), [(0, errors, activations)]).payload
        assert len(payload) == 8 + 4 * (batch * 20 if is_factors else 100)
