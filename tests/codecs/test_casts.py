"""What casts have in common: the powers of blocks, and the numbers of e4m3."""

import numpy as np
import pytest

from weft.codecs import FP16, Form, Turn
from weft.codecs.casts import EIGHT, HALF, eights, exponents
from weft.core.errors import CodecError


def test_the_numbers_of_e4m3_end_at_448_and_have_no_infinity() -> None:
    table = eights()
    assert (table.max(), table.min()) == (448.0, -448.0)
    assert table[1] == 2.0**-9
    assert table[0x38] == 1.0
    assert table[0x7F] == 0


def test_whatever_is_cast_is_finite_when_it_is_divided_again() -> None:
    for kind, largest in ((HALF, 65504.0), (EIGHT, 448.0)):
        for itemsize, dtype in ((4, np.float32), (8, np.float64)):
            lowest, _ = exponents(kind, itemsize)
            assert np.isfinite(dtype(largest) / dtype(2.0**lowest))
            assert np.finfo(dtype).max * 2.0**lowest < 2 * largest


def test_a_power_out_of_range_is_refused() -> None:
    payload = FP16().encode(np.ones(4, np.float32), None, Form(4), Turn()).payload
    for power in (0.0, -1.0, np.nan, np.inf, 1e-38):
        payload[:4].view(np.float32)[0] = power
        with pytest.raises(CodecError, match=r"the scale of block 0 is .* but it is a power of two from"):
            FP16().check(payload, Form(4))
