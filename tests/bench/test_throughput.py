"""`weft bench throughput`."""

from weft.bench.contenders.training import TOGETHER
from weft.bench.contenders.workloads import WORKLOADS
from weft.bench.throughput import THROUGHPUT


def test_every_workload_is_trained_by_two_workers_and_listed_for_four() -> None:
    assert [work.name for work in THROUGHPUT.works if work.num_processes == 2] == list(WORKLOADS)
    assert {work.task for work in THROUGHPUT.works if work.num_processes == 4} == set(WORKLOADS)


def test_every_contender_knows_how_to_train_together() -> None:
    assert {one.name for one in THROUGHPUT.contenders} <= set(TOGETHER)


def test_the_bars_name_what_is_measured() -> None:
    rivals, works = {one.ratio_name for one in THROUGHPUT.contenders}, {work.name for work in THROUGHPUT.works}
    assert len(THROUGHPUT.bars) == 12
    assert all(key.split("/")[0] in rivals and key.split("/")[1] in works for key in THROUGHPUT.bars)
