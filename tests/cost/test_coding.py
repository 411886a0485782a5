"""How long encoding and decoding take."""

from weft.codecs import FP16, OneBit, TopK
from weft.cost.coding import CodingSpeed, Throughput

SPEED = CodingSpeed({"topk": Throughput(2e9, 8e9), "onebit": Throughput(4e9, 5e9)})


def test_time_is_bytes_of_the_array_by_the_throughput_of_its_codec() -> None:
    assert SPEED.encode_s(TopK(), 2_000_000) == 1e-3
    assert SPEED.decode_s(TopK(), 2_000_000) == 0.25e-3
    assert SPEED.encode_s(OneBit(), 2_000_000) == 0.5e-3


def test_a_codec_that_nobody_has_measured_is_as_slow_as_the_slowest_that_was() -> None:
    assert SPEED.encode_s(FP16(), 2_000_000) == 1e-3
    assert SPEED.decode_s(FP16(), 2_000_000) == 0.4e-3


def test_if_none_was_measured_coding_takes_no_time() -> None:
    assert CodingSpeed({}).encode_s(TopK(), 10**9) == CodingSpeed({}).decode_s(TopK(), 10**9) == 0.0
