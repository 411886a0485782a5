"""Numbers as bfloat16."""

import numpy as np

from weft.codecs import BF16, Form, Turn


def round_trip(values: np.ndarray) -> np.ndarray:
    form, said = Form(len(values), values.itemsize), np.empty_like(values)
    BF16().decode(BF16().encode(values, None, form, Turn()).payload, said, form)
    return said


def test_a_round_trip_is_within_half_an_ulp_of_the_format() -> None:
    values = (np.random.default_rng(0).standard_normal(10_000) * 10.0 ** np.arange(-30, 30).repeat(1)[:1]).astype(
        np.float32
    )
    assert (np.abs(round_trip(values) - values) <= 2.0 ** (np.frexp(values)[1] - 8) / 2).all()


def test_ties_go_to_even() -> None:
    assert round_trip(np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8], np.float32)).tolist() == [1.0, 1 + 2.0**-6]


def test_the_largest_numbers_do_not_become_infinite() -> None:
    assert round_trip(np.array([3.4e38, -3.4e38], np.float32)).tolist() == [255 * 2.0**120, -255 * 2.0**120]
    assert round_trip(np.array([1e300])).tolist() == [255 * 2.0**120]


def test_a_payload_is_half_as_long() -> None:
    assert BF16().size(Form(4097)) == 2 * 4097
    assert not BF16().wants_feedback
