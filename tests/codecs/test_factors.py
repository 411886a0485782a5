"""Sufficient factors."""

import numpy as np
import pytest

from weft.codecs import Factors, Form, Turn
from weft.core.errors import CodecError, ConfigError

FORM = Form(30 * 20 + 20, 4, ((0, (30, 20)), (600, (20,))))
RNG = np.random.default_rng(0)


def captured(batch: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Errors, activations, and the gradient that they make."""
    errors, activations = (RNG.standard_normal((batch, side)).astype(np.float32) for side in (30, 20))
    return errors, activations, np.concatenate([(errors.T @ activations).reshape(-1), errors.sum(0)[:20]])


@pytest.mark.parametrize(("batch", "size"), [(4, 8 + 4 * (4 * 50 + 20)), (12, 8 + 4 * 620)])
def test_the_shorter_is_sent_and_makes_the_same_gradient(batch: int, size: int) -> None:
    errors, activations, gradient = captured(batch)
    encoded = Factors().encode(gradient, None, FORM, Turn(), [(0, errors, activations)])
    Factors().check(encoded.payload, FORM)
    said = np.empty(620, np.float32)
    Factors().decode(encoded.payload, said, FORM)
    assert len(encoded.payload) == size
    assert np.abs(said - gradient).max() <= 1e-6 * np.abs(gradient).max()


def test_with_a_residual_everything_travels_as_it_is() -> None:
    errors, activations, gradient = captured(4)
    residual, said = np.ones(620, np.float32), np.empty(620, np.float32)
    payload = Factors().encode(gradient, residual, FORM, Turn(), [(0, errors, activations)]).payload
    Factors().decode(payload, said, FORM)
    np.testing.assert_array_equal(said, gradient + 1)
    assert not residual.any()


def test_a_batch_that_cannot_be_is_refused() -> None:
    errors, activations, gradient = captured(4)
    payload = Factors().encode(gradient, None, FORM, Turn(), [(0, errors, activations)]).payload
    payload[0] = 12
    with pytest.raises(CodecError, match="have a batch of 12, but the matrix itself is shorter"):
        Factors().check(payload, FORM)
    payload[0] = 5
    with pytest.raises(CodecError, match="a payload has 888 bytes, but with its batches it becomes 1088"):
        Factors().check(payload, FORM)
    with pytest.raises(CodecError, match="a payload has 3 bytes, but 8 only for its batches"):
        Factors().check(payload[:3], FORM)


def test_factors_that_do_not_make_the_tensor_are_refused() -> None:
    errors, activations, gradient = captured(4)
    with pytest.raises(ConfigError, match="do not make tensor 1"):
        Factors().encode(gradient, None, FORM, Turn(), [(1, errors, activations)])
    with pytest.raises(ConfigError, match="do not make tensor 0"):
        Factors().encode(gradient, None, FORM, Turn(), [(0, activations, errors)])
