"""What onebit and signsgd have in common."""

import numpy as np

from weft.codecs import Form, OneBit, SignSGD, Turn


def test_bits_are_packed_from_the_lowest_and_zero_is_positive() -> None:
    values = np.array([1, -1, 0, -0.0, -2, 3, -4, -5, 6], np.float32)
    payload = SignSGD().encode(values, None, Form(9), Turn()).payload
    assert payload.tolist() == [0b00101101, 0b1]
    assert OneBit(8).encode(values, None, Form(9), Turn()).payload[-2:].tolist() == [0b00101101, 0b1]


def test_where_a_value_is_not_finite_the_residual_takes_what_its_sign_says_too_much() -> None:
    values, residual = np.array([np.nan, 2, -2], np.float64), np.array([0.5, 0, 0])
    encoded = SignSGD().encode(values, residual, Form(3, 8), Turn())
    assert encoded.num_not_finite == 1
    assert residual.tolist() == [-0.5, 1, -1]
