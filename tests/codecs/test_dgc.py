"""Deep Gradient Compression."""

import numpy as np
import pytest

from weft.codecs import DGC, Form, Turn
from weft.core.errors import ConfigError


def test_velocity_gathers_in_the_residual_and_both_are_forgotten_where_it_is_sent() -> None:
    codec, form = DGC(0.25, momentum=0.5, warmup_steps=0), Form(4, 8)
    residual, velocity, said = np.zeros(4), np.zeros(4), np.zeros(4)
    for step in range(2):
        payload = codec.encode(np.array([1.0, 2.0, 3.0, 0.0]), residual, form, Turn(step), velocity).payload
    codec.decode(payload, said, form)
    assert said.tolist() == [0, 5, 0, 0]
    assert residual.tolist() == [2.5, 0, 3, 0]
    assert velocity.tolist() == [1.5, 0, 3, 0]


def test_the_fraction_falls_in_five_stretches() -> None:
    codec = DGC(0.001, warmup_steps=10)
    assert [codec.fraction_at(clock) for clock in (0, 1, 2, 4, 6, 8, 10, 99)] == [
        0.25,
        0.25,
        0.0625,
        0.015625,
        0.004,
        0.001,
        0.001,
        0.001,
    ]
    assert DGC(0.1, warmup_steps=10).fraction_at(5) == 0.1
    assert codec.size(Form(10_000), 0) == 8 + 2500 * 6
    assert codec.size(Form(10_000), 10) == 24 + 10 * 4


def test_a_gradient_is_clipped_by_its_norm_without_what_is_not_finite() -> None:
    residual = np.zeros(3)
    DGC(0.1, clip=1.0).encode(np.array([3.0, 4.0, np.nan]), residual, Form(3, 8), Turn())
    np.testing.assert_allclose(residual, [0.6, 0, 0], rtol=1e-12)


def test_the_optimizers_momentum_is_taken_over_unless_it_has_its_own() -> None:
    assert DGC().taking_over(0.9) == DGC(momentum=0.9)
    assert DGC(momentum=0.5).taking_over(0.9) == DGC(momentum=0.5)
    DGC(momentum=0.5).prepare(4)


def test_where_a_value_is_not_finite_the_velocity_stays() -> None:
    residual, velocity = np.array([1.0, 1.0]), np.array([5.0, 5.0])
    encoded = DGC(0.5, momentum=0.5, warmup_steps=0).encode(
        np.array([np.inf, 1.0]), residual, Form(2, 8), Turn(), velocity
    )
    assert (residual.tolist(), velocity.tolist()) == ([1, 0], [5, 0])
    assert encoded.num_not_finite == 1


def test_parameters_out_of_range_are_refused_with_the_range() -> None:
    with pytest.raises(ConfigError, match=r"momentum of 'dgc' is 1\.0, but it is from 0 to below 1"):
        DGC(momentum=1.0)
    with pytest.raises(ConfigError, match="clip of 'dgc' is -1, but it is a finite number above 0"):
        DGC(clip=-1)


def test_without_a_velocity_there_is_no_momentum() -> None:
    """A contribution of no weight leaves no traces."""
    payload = DGC(0.5, momentum=0.9, warmup_steps=0).encode(np.array([4.0, 1.0]), None, Form(2, 8), Turn()).payload
    said = np.zeros(2)
    DGC(0.5, warmup_steps=0).decode(payload, said, Form(2, 8))
    assert said.tolist() == [4.0, 0.0]


def test_velocity_is_kept_where_it_is_sent_while_warming_up() -> None:
    codec, form = DGC(0.5, momentum=0.5, warmup_steps=10), Form(2)
    residual, velocity = np.zeros(2, np.float32), np.zeros(2, np.float32)
    codec.encode(np.array([4.0, 1.0], np.float32), residual, form, Turn(9), velocity)
    assert (residual.tolist(), velocity.tolist()) == ([0.0, 1.0], [4.0, 1.0])
    codec.encode(np.array([4.0, 1.0], np.float32), residual, form, Turn(10), velocity)
    assert (residual.tolist(), velocity.tolist()) == ([0.0, 2.5], [0.0, 1.5])
