"""QSGD."""

import numpy as np
import pytest

from weft.codecs import QSGD, Form, Turn
from weft.core.errors import ConfigError


@pytest.mark.parametrize(("levels", "width"), [(1, 2), (2, 4), (7, 4), (8, 8), (127, 8)])
def test_codes_have_as_few_bits_as_bytes_can_be_cut_in(levels: int, width: int) -> None:
    assert QSGD(levels).width == width
    assert QSGD(levels).size(Form(1024)) == 2 * 4 + 1024 * width // 8


def test_numbers_become_multiples_of_the_largest_of_their_block() -> None:
    values, said = np.random.default_rng(0).standard_normal(512), np.empty(512)
    QSGD(4).decode(QSGD(4).encode(values, None, Form(512, 8), Turn()).payload, said, Form(512, 8))
    multiples = said / np.abs(values).max() * 4
    np.testing.assert_allclose(multiples, np.rint(multiples), atol=1e-12)
    assert np.abs(said - values).max() < np.abs(values).max() / 4


def test_parameters_out_of_range_are_refused_with_the_range() -> None:
    with pytest.raises(ConfigError, match="levels of 'qsgd' is 128, but it is a whole number from 1 to 127"):
        QSGD(128)
    with pytest.raises(ConfigError, match="block of 'qsgd' is 100, but it is a multiple of 8"):
        QSGD(7, 100)
