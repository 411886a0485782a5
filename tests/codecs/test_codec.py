"""What every codec promises whatever it does: sizes are checked before anything is decoded."""

from dataclasses import dataclass

import numpy as np
import pytest

from weft.codecs.codec import Array, Codec, Encoded, Form, Payload, Turn
from weft.core.errors import CodecError


@dataclass(frozen=True)
class Raw(Codec):
    """Leaves everything as it is."""

    def size(self, form: Form, clock: int = 0) -> int:
        return form.num_bytes

    def encode(
        self, values: Array, residual: Array | None, form: Form, turn: Turn, given: Array | None = None
    ) -> Encoded:
        return Encoded(values.view(np.uint8))

    def add(self, payload: Payload, into: Array, scale: float, form: Form, given: Array | None = None) -> None:
        into += scale * payload.view(into.dtype)


@dataclass(frozen=True)
class RawAtMost(Raw):
    """The same, for which fewer bytes would do."""

    varies = True


def test_a_payload_of_another_size_is_refused() -> None:
    with pytest.raises(CodecError, match="a payload has 7 bytes, but 2 numbers become 8"):
        Raw().check(np.zeros(7, np.uint8), Form(2))
    with pytest.raises(CodecError, match="a payload has 9 bytes, but 2 numbers become 8"):
        RawAtMost().check(np.zeros(9, np.uint8), Form(2))


def test_one_whose_size_varies_may_be_smaller() -> None:
    assert RawAtMost().check(np.zeros(7, np.uint8), Form(2)) is None


def test_decoding_overwrites_and_adding_adds() -> None:
    values = np.array([1.0, -2.0], np.float32)
    payload = Raw().encode(values, None, Form(2), Turn()).payload
    into = np.array([5.0, 5.0], np.float32)
    Raw().add(payload, into, 0.5, Form(2))
    assert into.tolist() == [5.5, 4.0]
    Raw().decode(payload, into, Form(2))
    assert into.tolist() == [1.0, -2.0]
