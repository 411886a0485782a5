"""`weft bench slownet`: who is how soon accurate enough."""

from pathlib import Path
from typing import Any

import pytest
from support.scripts.mnist_files import write_tiny_mnist

from weft.bench import slownet
from weft.bench.racing import Goal
from weft.bench.slownet import BARS, RIVALS, SlowNetWorkload, measure_slownet
from weft.config.network import EmulatedNetwork


def test_what_all_contenders_are_told_is_the_same(tmp_path: Path) -> None:
    course = SlowNetWorkload(write_tiny_mnist(tmp_path))
    weft, ddp = course.job(3, strategy="local_sgd(period=20)", compress="fp16"), course.job(3, baseline="ddp")
    assert weft.arguments == ddp.arguments
    assert (weft.seed, weft.network, weft.num_workers, weft.transport) == (3, EmulatedNetwork(12.5e6, 0.01), 4, "tcp")
    assert weft.arguments[4:6] == ("--batch-size", "64")
    assert course.words == "4 workers, 100 Mbit/s, 10 ms, batches of 64, lr 0.2"


@pytest.mark.processes
def test_contenders_train_until_they_are_accurate_and_are_ended_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slownet, "RIVALS", {"fp16": "ddp+fp16"})
    small: dict[str, Any] = {"num_workers": 2, "network": EmulatedNetwork(125e6, 1e-3), "hidden": 16, "batch_size": 8}
    course = SlowNetWorkload(
        write_tiny_mnist(tmp_path), lr=0.01, score_every=4, goal=Goal(1.0), steps_max=10_000, **small
    )
    told: list[str] = []
    report = measure_slownet(course, 1, "local_sgd(period=4)", None, told.append)
    assert told == ["slownet: weft, block 1 of 1", "slownet: fp16, block 1 of 1"]
    assert report["unit"] == "seconds to 100% (2 workers, 1 Gbit/s, 1 ms, batches of 8, lr 0.01)"
    for row in report["rows"]:
        (run,) = row["runs"]
        assert run["accuracy"] == 1.0
        assert 1 <= run["scores"] < 250
        assert 0 < row["seconds"] < 60
    assert list(report["ratios"]) == ["fp16"]
    assert report["rows"][0]["way"] == "local_sgd(period=4)"


def test_every_rival_has_a_bar() -> None:
    assert BARS.keys() == RIVALS.keys()
