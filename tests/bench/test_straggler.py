"""`weft bench straggler`: contenders are told the same, take turns, and end when they are accurate."""

from pathlib import Path
from typing import Any

import pytest
from support.scripts.mnist_files import write_mnist

from weft.bench.racing import Goal
from weft.bench.straggler import BARS, BEST, OTHERS, StragglerWorkload, measure_straggler
from weft.config.ways import Way, read_ways


def test_what_all_contenders_are_told_is_the_same(tmp_path: Path) -> None:
    contest = StragglerWorkload(write_mnist(tmp_path)).contest()
    weft, ddp = contest.job(Way("local_sgd", None, "proportional"), 3), contest.job(Way(baseline="ddp"), 3)
    assert weft.arguments == ddp.arguments
    assert (weft.slow, ddp.slow, weft.seed, ddp.seed) == ({0: 4.0}, {0: 4.0}, 3, 3)
    assert StragglerWorkload(tmp_path).words == "4 workers, worker 0 4 times slower, batches of 64, lr 0.1"


def test_the_ways_can_be_told_apart_and_there_is_a_bar() -> None:
    assert len(read_ways([BEST, *OTHERS])) == 1 + len(OTHERS)
    assert BARS == {"ddp": 2.2}


@pytest.mark.processes
def test_contenders_take_turns_and_the_other_ways_run_in_the_first_blocks(tmp_path: Path) -> None:
    small: dict[str, Any] = {"num_workers": 2, "slow": {0: 2.0}, "batch_size": 4, "lr": 0.02}
    course = StragglerWorkload(write_mnist(tmp_path, train=400), goal=Goal(0.6, 60.0), pieces=4, test_every=1, **small)
    told: list[str] = []
    report = measure_straggler(course, 2, "local_sgd", ["allreduce"], 1, told.append)
    ways = [line.removeprefix("straggler: ") for line in told]
    assert ways == [
        "local_sgd, block 1 of 2",
        "allreduce, block 1 of 2",
        "ddp, block 1 of 2",
        "ddp, block 2 of 2",
        "local_sgd, block 2 of 2",
    ]
    assert [len(row["runs"]) for row in report["rows"]] == [2, 1, 2]
    assert all(run["accuracy"] >= 0.6 for row in report["rows"] for run in row["runs"])
    assert list(report["ratios"]) == ["ddp"]
