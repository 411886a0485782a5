"""`weft bench slownet`: who is how soon accurate enough."""

from pathlib import Path
from typing import Any

import pytest
from idx import write_tiny_mnist

from weft.bench import slownet
from weft.bench.slownet import BARS, RIVALS, Course, Finish, finish_rows, measure_slownet
from weft.config.network import Network
from weft.core.errors import ConfigError


def test_what_all_contenders_are_told_is_the_same(tmp_path: Path) -> None:
    course = Course(write_tiny_mnist(tmp_path))
    weft, ddp = course.job(3, strategy="local_sgd(period=20)", compress="fp16"), course.job(3, baseline="ddp")
    assert weft.arguments == ddp.arguments
    assert (weft.seed, weft.network, weft.num_workers, weft.transport) == (3, Network(12.5e6, 0.01), 4, "tcp")
    assert weft.arguments[4:6] == ("--batch-size", "64")
    assert course.words == "4 workers, 100 Mbit/s, 10 ms, batches of 64, lr 0.2"


def test_a_folder_without_mnist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        Course(tmp_path)
    assert str(refused.value) == (
        f"there is no MNIST in '{tmp_path}'.\n  Name the folder of its four files with --data FOLDER."
    )


def test_contenders_train_until_they_are_accurate_and_are_ended_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slownet, "RIVALS", {"fp16": "ddp+fp16"})
    small: dict[str, Any] = {"num_workers": 2, "network": Network(125e6, 1e-3), "hidden": 16, "batch_size": 8}
    course = Course(write_tiny_mnist(tmp_path), lr=0.01, score_every=4, accuracy=1.0, steps_max=10_000, **small)
    told: list[str] = []
    report = measure_slownet(course, 1, "local_sgd(period=4)", None, told.append)
    assert told == ["slownet: weft, block 1 of 1", "slownet: fp16, block 1 of 1"]
    assert report["unit"] == "seconds to 100% (2 workers, 1 Gbit/s, 1 ms, batches of 8, lr 0.01)"
    for row in report["rows"]:
        (run,) = row["runs"]
        assert run["accuracy"] == 1.0
        assert 4 <= run["steps"] < 1000
        assert 0 < row["seconds"] < 60
    assert list(report["ratios"]) == ["fp16"]


def run(seconds: float, *, is_reached: bool = True) -> Finish:
    return Finish(seconds, 40, 0.971 if is_reached else 0.9, is_reached)


def test_ratios_are_of_the_same_block_and_who_gave_up_says_so(tmp_path: Path) -> None:
    course = Course(write_tiny_mnist(tmp_path))
    given_up = run(600, is_reached=False)
    finishes = {"weft": [run(10), run(20), run(15)], "ddp": [run(150), run(300), run(225)], "fp16": [given_up] * 3}
    weft, ddp, fp16 = finish_rows(course, finishes, "local_sgd + fp16")
    assert (weft["way"], weft["seconds"]) == ("local_sgd + fp16", 15)
    assert "ratio" not in weft
    assert (ddp["ratio"], ddp["ratio_low"], ddp["bar"]) == (15, 15, 10.0)
    assert fp16["contender"] == "fp16 (gave up at 90.0%)"
    assert fp16["seconds"] == 600


def test_a_single_block_meets_no_bar(tmp_path: Path) -> None:
    _, ddp = finish_rows(Course(write_tiny_mnist(tmp_path)), {"weft": [run(10)], "ddp": [run(150)]}, "x")
    assert ddp["ratio"] == 15
    assert "bar" not in ddp


def test_there_are_no_ratios_if_weft_itself_gave_up(tmp_path: Path) -> None:
    course = Course(write_tiny_mnist(tmp_path))
    weft, ddp = finish_rows(course, {"weft": [run(600, is_reached=False)], "ddp": [run(150)]}, "x")
    assert weft["contender"] == "weft (gave up at 90.0%)"
    assert "ratio" not in ddp


def test_every_rival_has_a_bar() -> None:
    assert BARS.keys() == RIVALS.keys()
