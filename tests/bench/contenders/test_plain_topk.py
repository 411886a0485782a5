"""Top-k of all numbers, in the place of that of blocks."""

import pytest

from weft.bench.contender import BenchmarkContender
from weft.bench.group import Group


@pytest.mark.parametrize("work", ["blocktopk/64KiB", "blocktopk-decode/64KiB"])
def test_it_is_measured_in_a_process_of_its_own(work: str) -> None:
    with Group(BenchmarkContender("topk", "weft.bench.contenders.plain_topk"), work, 1) as group:
        group.meet()
        assert group.block(2) > 0
