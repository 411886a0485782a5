"""`weft bench overhead`."""

from weft.bench.contenders.training import TOGETHER
from weft.bench.overhead import OVERHEAD


def test_one_worker_is_compared_with_the_bare_loop() -> None:
    assert [work.num_processes for work in OVERHEAD.works] == [1]
    assert [one.name for one in OVERHEAD.contenders] == ["weft", "bare", "bare-kept"]
    assert {one.name for one in OVERHEAD.contenders} <= set(TOGETHER)
    assert OVERHEAD.bars == {"bare/cnn": 0.98}
