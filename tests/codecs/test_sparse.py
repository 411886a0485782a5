"""How a few numbers among many travel."""

import numpy as np
import pytest

from weft.codecs import Form, Threshold, TopK, Turn
from weft.codecs.sparse import Picked, check_numbers, take, up_to_word
from weft.core.errors import CodecError


def payload_of(values: list[float], codec: TopK | Threshold) -> np.ndarray:
    return codec.encode(np.array(values, np.float32), None, Form(len(values)), Turn()).payload


def test_a_payload_is_counts_then_offsets_then_numbers() -> None:
    payload = payload_of([0, 5, 0, 7], TopK(0.5))
    assert payload[:4].view(np.uint32).tolist() == [2]
    assert payload[4:8].view(np.uint16).tolist() == [1, 3]
    assert payload[8:].view(np.float32).tolist() == [5, 7]


def test_offsets_begin_anew_in_each_block_and_padding_is_zero() -> None:
    values = np.zeros(65536 * 2 + 3, np.float32)
    values[[0, 65535, 131072]] = 1, 2, 3
    payload = Threshold(0.5).encode(values, None, Form(len(values)), Turn()).payload
    assert payload[:12].view(np.uint32).tolist() == [2, 0, 1]
    assert payload[12:18].view(np.uint16).tolist() == [0, 65535, 0]
    assert payload[18:24].tolist() == [0] * 6
    assert len(payload) == 24 + 3 * 4
    assert up_to_word(18) == 24


@pytest.mark.parametrize(
    ("place", "kind", "number", "message"),
    [
        (0, np.uint32, 3, "counts 3 numbers, but of 4 2 are kept"),
        (4, np.uint16, 3, "the offsets of a payload do not rise, or leave the 4 numbers"),
        (6, np.uint16, 4, "the offsets of a payload do not rise, or leave the 4 numbers"),
        (8, np.float32, np.nan, "the payload has numbers that are not finite"),
    ],
)
def test_a_payload_that_cannot_be_is_refused(place: int, kind: type, number: float, message: str) -> None:
    payload = payload_of([0, 5, 0, 7], TopK(0.5))
    payload[place : place + np.dtype(kind).itemsize].view(kind)[0] = number
    with pytest.raises(CodecError, match=message):
        TopK(0.5).check(payload, Form(4))


def test_one_that_varies_may_count_less_but_must_have_the_bytes() -> None:
    payload = payload_of([0, 5, 0, 7], Threshold(1.0))
    payload[0] = 1
    with pytest.raises(CodecError, match="a payload has 16 bytes, but 1 of 4 numbers become 12"):
        Threshold(1.0).check(payload, Form(4))
    with pytest.raises(CodecError, match="a payload has 2 bytes, but 4 only for its counts"):
        Threshold(1.0).check(payload[:2], Form(4))


def test_taking_moves_numbers_except_where_a_value_was_not_finite() -> None:
    total = np.array([1.0, 2.0, 3.0])
    picked = take(total, total, np.array([0, 2]), np.array([2]))
    assert isinstance(picked, Picked)
    assert picked.numbers.tolist() == [1, 0]
    assert total.tolist() == [0, 2, 3]
    assert picked.num_not_finite == 1
    assert take(total, None, np.array([1]), np.array([], np.int64)).numbers.tolist() == [2]
    assert total[1] == 2


def test_numbers_are_refused_that_would_not_be_finite_once_multiplied() -> None:
    check_numbers(np.array([1e38], np.float32), 3.0)
    with pytest.raises(CodecError, match="not finite"):
        check_numbers(np.array([1e38], np.float32), 4.0)
