"""The largest numbers."""

import numpy as np
import pytest

from weft.codecs import Form, TopK, Turn
from weft.core.errors import ConfigError


@pytest.mark.parametrize(("number", "kept"), [(1, 1), (99, 1), (100, 1), (101, 2), (1000, 10)])
def test_as_many_are_kept_as_the_fraction_says_and_at_least_one(number: int, kept: int) -> None:
    values = np.random.default_rng(0).standard_normal(number)
    payload = TopK(0.01).encode(values, None, Form(number, 8), Turn()).payload
    assert TopK(0.01).most(Form(number, 8), 0) == kept
    assert TopK(0.01).read_number(payload, Form(number, 8), 0) == kept


def test_what_is_kept_is_as_large_as_what_is_left() -> None:
    values, residual, said = np.random.default_rng(0).standard_normal(5000), np.zeros(5000), np.empty(5000)
    TopK(0.1).decode(TopK(0.1).encode(values, residual, Form(5000, 8), Turn()).payload, said, Form(5000, 8))
    assert np.abs(said[said != 0]).min() >= np.abs(residual).max()
    np.testing.assert_array_equal(said + residual, values)


def test_blocks_may_have_their_largest_each() -> None:
    assert TopK(k_of_block=16).most(Form(512 * 3 + 5), 0) == 16 * 3 + 5


def test_parameters_out_of_range_are_refused_with_the_range() -> None:
    with pytest.raises(ConfigError, match="fraction of 'topk' is 0, but it is above 0 and at most 1"):
        TopK(0)
    with pytest.raises(ConfigError, match="k_of_block of 'topk' is 600, but it is from 1 to block, which is 512"):
        TopK(k_of_block=600)
