"""Whole numbers of 8 bits."""

import numpy as np
import pytest

from weft.codecs import Form, Int8, Turn
from weft.core.errors import ConfigError


def test_numbers_are_within_a_255th_of_the_range_of_their_block() -> None:
    values, said = np.random.default_rng(0).uniform(-3, 3, 2000).astype(np.float32), np.empty(2000, np.float32)
    Int8().decode(Int8().encode(values, None, Form(2000), Turn()).payload, said, Form(2000))
    assert np.abs(said - values).max() < 3 / 127 * 1.001
    assert Int8().size(Form(2000)) == 4 * 4 + 2000


def test_parameters_out_of_range_are_refused_with_the_range() -> None:
    with pytest.raises(ConfigError, match="block of 'int8' is 0, but it is a whole number from 8 to 65536"):
        Int8(0)
