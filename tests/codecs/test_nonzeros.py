"""What is not zero, or everything."""

import numpy as np
import pytest

from weft.codecs import Form, Nonzeros, Turn
from weft.core.errors import CodecError


@pytest.mark.parametrize(("kept", "size"), [(0, 8 + 8), (10, 8 + 24 + 40), (600, 8 + 1204 + 4 + 2400), (900, 8 + 4000)])
def test_the_shorter_of_the_two_is_sent_and_nothing_is_lost(kept: int, size: int) -> None:
    values, said = np.zeros(1000, np.float32), np.empty(1000, np.float32)
    values[np.random.default_rng(0).permutation(1000)[:kept]] = 1.5
    payload = Nonzeros().encode(values, None, Form(1000), Turn()).payload
    Nonzeros().check(payload, Form(1000))
    Nonzeros().decode(payload, said, Form(1000))
    np.testing.assert_array_equal(said, values)
    assert len(payload) == size <= Nonzeros().size(Form(1000))


def test_a_payload_of_neither_kind_is_refused() -> None:
    payload = Nonzeros().encode(np.ones(10, np.float32), None, Form(10), Turn()).payload
    payload[0] = 2
    with pytest.raises(
        CodecError, match="a payload of kind 2 has 48 bytes, but all 10 numbers are kind 0 and 48 bytes"
    ):
        Nonzeros().check(payload, Form(10))
    with pytest.raises(CodecError, match="a payload has 3 bytes, but 10 numbers become 48 at most"):
        Nonzeros().check(payload[:3], Form(10))
