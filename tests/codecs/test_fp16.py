"""Numbers as float16."""

import numpy as np

from weft.codecs import FP16, Form, Turn


def round_trip(values: np.ndarray) -> np.ndarray:
    form, said = Form(len(values), values.itemsize), np.empty_like(values)
    FP16().decode(FP16().encode(values, None, form, Turn()).payload, said, form)
    return said


def test_a_round_trip_is_within_half_an_ulp_of_the_format() -> None:
    values = np.random.default_rng(0).uniform(-1, 1, 10_000).astype(np.float32)
    ulps = np.maximum(2.0 ** (np.frexp(values)[1] - 11), 2.0**-38)
    assert (np.abs(round_trip(values) - values) <= ulps / 2).all()


def test_small_gradients_and_large_parameters_keep_their_digits() -> None:
    values = np.full(4096, 1.2345e-9, np.float32)
    np.testing.assert_allclose(round_trip(values), values, rtol=2.0**-11)
    values = np.full(4096, 1e6, np.float32)
    np.testing.assert_allclose(round_trip(values), values, rtol=2.0**-11)


def test_ties_go_to_even() -> None:
    values = np.array([1 + 2.0**-11, 1 + 3 * 2.0**-11], np.float32)
    assert round_trip(values).tolist() == [1.0, 1 + 2.0**-9]


def test_a_payload_is_half_as_long_and_a_scale_for_each_block() -> None:
    assert FP16().size(Form(4097)) == 2 * 4 + 2 * 4097
    assert not FP16().wants_feedback
