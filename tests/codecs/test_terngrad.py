"""TernGrad."""

import numpy as np
import pytest

from weft.codecs import Form, Peaks, TernGrad, Turn
from weft.core.errors import CodecError, ConfigError


def test_each_tensor_and_what_is_between_has_a_scale_of_its_own() -> None:
    values = np.array([1, -1, 0, 7, 5, -5, 5, 0.5])
    form, said = Form(8, 8, ((0, (3,)), (4, (3,)))), np.empty(8)
    TernGrad(2.5).decode(TernGrad(2.5).encode(values, None, form, Turn()).payload, said, form)
    np.testing.assert_array_equal(said, values)
    assert TernGrad().size(form) == 4 * 8 + 2


def test_workers_agree_on_the_larger_scale() -> None:
    form, codec = Form(4), TernGrad(100.0)
    agreed = codec.peaks.encode(np.array([1, 2, 3, 4], np.float32), None, form, Turn()).payload
    other = codec.peaks.encode(np.array([9, 2, 3, 4], np.float32), None, form, Turn()).payload
    codec.peaks.check(other, form)
    codec.peaks.merge(agreed, 0.5, other, 0.0, form)
    assert agreed.view(np.float32).tolist() == [4], "a share of 0 does not count"
    codec.peaks.merge(agreed, 0.5, other, 0.5, form)
    assert agreed.view(np.float32).tolist() == [9]
    said = np.empty(4, np.float32)
    codec.decode(codec.encode(np.full(4, 4.5, np.float32), None, form, Turn(), agreed).payload, said, form)
    assert set(said.tolist()) <= {0.0, 9.0}


def test_scales_alone_say_no_values_and_leave_the_residual_alone() -> None:
    residual = np.ones(4, np.float32)
    payload = Peaks().encode(np.ones(4, np.float32), residual, Form(4), Turn()).payload
    assert residual.tolist() == [1, 1, 1, 1]
    with pytest.raises(CodecError, match="scales alone say no values"):
        Peaks().decode(payload, residual, Form(4))
    Peaks().prepare(8)


def test_parameters_out_of_range_are_refused_with_the_range() -> None:
    with pytest.raises(ConfigError, match="clip of 'terngrad' is 0, but it is a finite number above 0"):
        TernGrad(0)
    with pytest.raises(ConfigError, match="block of 'terngrad' is 9, but it is a multiple of 8"):
        TernGrad(block=9)
