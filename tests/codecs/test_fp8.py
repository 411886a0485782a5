"""Numbers of 8 bits."""

import numpy as np
import pytest

from weft.codecs import FP8, Form, Turn
from weft.core.errors import CodecError


def test_a_round_trip_is_within_half_an_ulp_of_the_format() -> None:
    values = np.random.default_rng(0).uniform(-1, 1, 512).astype(np.float32)
    values[0] = 0.875  # 448 once it is multiplied by 2^9: the largest number there is
    said = np.empty_like(values)
    FP8().decode(FP8().encode(values, None, Form(512), Turn()).payload, said, Form(512))
    ulps = np.maximum(2.0 ** (np.frexp(values)[1] - 4), 2.0**-18)
    assert (np.abs(said - values) <= ulps / 2).all()
    assert said[0] == 0.875


def test_every_number_of_the_format_comes_back_as_it_is() -> None:
    from weft.codecs.casts import eights

    numbers, said = eights().copy(), np.empty(256, np.float32)
    FP8().decode(FP8().encode(numbers, None, Form(256), Turn()).payload, said, Form(256))
    np.testing.assert_array_equal(said, numbers)


def test_a_code_that_is_no_number_is_refused() -> None:
    payload = FP8().encode(np.ones(4, np.float32), None, Form(4), Turn()).payload
    payload[-1] = 0xFF
    with pytest.raises(CodecError, match="the payload has numbers that are not finite"):
        FP8().check(payload, Form(4))
