"""Copying the bytes once."""

from weft.bench.contender import BenchmarkContender
from weft.bench.group import Group


def test_a_copy_is_a_sum_over_one_process() -> None:
    with Group(BenchmarkContender("memcpy", "weft.bench.contenders.memcpy", is_alone=True), "64KiB", 4) as group:
        group.meet()
        assert group.block(3) > 0
