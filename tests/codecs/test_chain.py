"""Two codecs in a row."""

import numpy as np
import pytest

from weft.codecs import FP16, QSGD, Chain, Form, OneBit, PowerSGD, SignSGD, Threshold, TopK, Turn
from weft.core.errors import CodecError, ConfigError


def test_it_equals_applying_both() -> None:
    values, form = np.random.default_rng(0).standard_normal(1024).astype(np.float32), Form(1024)
    said, kept, second = np.zeros(1024, np.float32), np.zeros(1024, np.float32), np.zeros(32, np.float32)
    both = TopK(k_of_block=16) | QSGD()
    both.decode(both.encode(values, None, form, Turn(draw=3)).payload, said, form)
    TopK(k_of_block=16).decode(TopK(k_of_block=16).encode(values, None, form, Turn()).payload, kept, form)
    QSGD().decode(QSGD().encode(kept[kept != 0], None, Form(32), Turn(draw=3)).payload, second, Form(32))
    np.testing.assert_array_equal(said[kept != 0], second)
    assert not said[kept == 0].any()


def test_sparcmls_top16_q4_has_these_bytes() -> None:
    assert (TopK(k_of_block=16) | QSGD()).size(Form(5120)) == 328 + 4 + 160 // 2


def test_feedback_is_wanted_if_either_wants_it() -> None:
    assert (TopK() | QSGD()).wants_feedback
    assert (Threshold() | FP16()).wants_feedback
    assert (TopK() | OneBit()) == Chain(TopK(), OneBit())


def test_what_cannot_be_composed_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'qsgd \| topk' cannot be: 'qsgd' does not choose among numbers"):
        QSGD() | TopK()
    for second in (TopK(), SignSGD(), PowerSGD(), TopK() | FP16()):
        with pytest.raises(ConfigError, match="does not encode a few numbers as they come"):
            TopK() | second


def test_a_payload_of_another_length_is_refused() -> None:
    codec = Threshold(0.5) | FP16()
    payload = codec.encode(np.ones(10, np.float32), None, Form(10), Turn()).payload
    with pytest.raises(CodecError, match="a payload has 47 bytes, but 10 of 10 numbers become 48"):
        codec.check(payload[:-1], Form(10))
