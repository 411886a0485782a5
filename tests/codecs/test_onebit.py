"""1-bit SGD."""

import numpy as np
import pytest

from weft.codecs import Form, OneBit, Turn
from weft.core.errors import CodecError, ConfigError


def test_numbers_become_the_two_means_of_their_block() -> None:
    values, said = np.array([1, 2, 3, -1, -5, 0, 0, 0, 7, 9], np.float64), np.empty(10)
    OneBit(8).decode(OneBit(8).encode(values, None, Form(10, 8), Turn()).payload, said, Form(10, 8))
    assert said.tolist() == [1, 1, 1, -3, -3, 1, 1, 1, 8, 8]


def test_means_of_the_largest_numbers_are_finite() -> None:
    values, said = np.full(100, 3e38, np.float32), np.empty(100, np.float32)
    OneBit().decode(OneBit().encode(values, None, Form(100), Turn()).payload, said, Form(100))
    np.testing.assert_allclose(said, 3e38, rtol=1e-5)


def test_it_is_32_to_1_plus_the_means() -> None:
    assert OneBit(2048).size(Form(1 << 20)) == (1 << 20) // 8 + 512 * 8


def test_feedback_can_be_left_out_to_show_what_it_is_for() -> None:
    assert OneBit().wants_feedback
    assert not OneBit(feedback=False).wants_feedback


def test_means_that_are_not_finite_are_refused() -> None:
    payload = OneBit().encode(np.ones(8, np.float32), None, Form(8), Turn()).payload
    payload[4:8].view(np.float32)[0] = np.inf
    with pytest.raises(CodecError, match="a mean of block 0 is inf, but it is finite"):
        OneBit().check(payload, Form(8))
    with pytest.raises(ConfigError, match="block of 'onebit' is 12, but it is a multiple of 8"):
        OneBit(12)
