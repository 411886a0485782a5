"""Copying gradients once."""

from weft.bench.contender import BenchmarkContender
from weft.bench.group import Group


def test_a_copy_is_measured_whatever_the_codec() -> None:
    with Group(BenchmarkContender("memcpy", "weft.bench.contenders.codec_copy"), "qsgd/64KiB", 1) as group:
        group.meet()
        assert group.block(3) > 0
