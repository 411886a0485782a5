"""Time to an accuracy: who is how soon accurate enough, and what that is in relation to others."""

from pathlib import Path

import pytest
from support.processes.launches import TRAIN
from support.processes.real import fork_from_here
from support.scripts.mnist_files import write_tiny_mnist
from support.scripts.training_scripts import write

from weft.bench.racing import Goal, RaceResult, check_mnist, finish_rows, race
from weft.core.errors import ConfigError
from weft.engines.real.job import RealJob

SCORED = """
for _ in range(100):
    worker.step({"w": w}, samples=1)
    worker.report(accuracy=worker.steps / 100)
"""


class Forks:
    """As much of a fork server as a race needs."""

    fork = staticmethod(fork_from_here)


def test_a_run_is_ended_at_its_goal_and_its_time_begins_when_all_have_joined(tmp_path: Path) -> None:
    job = RealJob(script=write(tmp_path, TRAIN, SCORED), arguments=(), num_workers=2)
    finish = race(Goal(0.05), job, Forks())  # type: ignore[arg-type]
    assert (finish.accuracy, finish.is_reached) == (0.05, True)
    assert finish.scores >= 5, "a worker that is ahead may be heard for itself"
    assert 0 < finish.seconds < 30


def test_who_takes_too_long_is_given_up(tmp_path: Path) -> None:
    job = RealJob(script=write(tmp_path, TRAIN, SCORED), arguments=(), num_workers=2)
    finish = race(Goal(2.0, cap_s=0.0), job, Forks())  # type: ignore[arg-type]
    assert (finish.scores, finish.is_reached) == (1, False)


def test_who_is_never_scored_is_an_error(tmp_path: Path) -> None:
    job = RealJob(
        script=write(tmp_path, TRAIN, SCORED.replace("worker.report", "if not worker.steps: worker.report")),
        arguments=(),
        num_workers=2,
    )
    with pytest.raises(ConfigError, match="a contender was never scored"):
        race(Goal(), job, Forks())  # type: ignore[arg-type]


def run(seconds: float, *, is_reached: bool = True) -> RaceResult:
    return RaceResult(seconds, 40, 0.971 if is_reached else 0.9, is_reached)


def test_ratios_are_of_the_same_block_and_who_gave_up_says_so() -> None:
    given_up = run(600, is_reached=False)
    finishes = {"weft": [run(10), run(20), run(15)], "ddp": [run(150), run(300), run(225)], "fp16": [given_up] * 3}
    weft, ddp, fp16 = finish_rows(finishes, "weft", {"ddp": 10.0})
    assert weft["seconds"] == 15
    assert "ratio" not in weft
    assert (ddp["ratio"], ddp["ratio_low"], ddp["bar"]) == (15, 15, 10.0)
    assert fp16["contender"] == "fp16 (gave up at 90.0%)"
    assert fp16["seconds"] == 600
    assert "bar" not in fp16


def test_who_ran_in_fewer_blocks_is_compared_in_those() -> None:
    _, ssp = finish_rows({"weft": [run(10), run(20), run(15)], "ssp": [run(30)]}, "weft", {})
    assert ssp["ratio"] == 3


def test_a_single_block_meets_no_bar() -> None:
    _, ddp = finish_rows({"weft": [run(10)], "ddp": [run(150)]}, "weft", {"ddp": 10.0})
    assert ddp["ratio"] == 15
    assert "bar" not in ddp


def test_there_are_no_ratios_if_the_one_that_counts_gave_up() -> None:
    weft, ddp = finish_rows({"weft": [run(600, is_reached=False)], "ddp": [run(150)]}, "weft", {})
    assert weft["contender"] == "weft (gave up at 90.0%)"
    assert "ratio" not in ddp


def test_a_folder_without_mnist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        check_mnist(tmp_path)
    assert str(refused.value) == (
        f"there is no MNIST in '{tmp_path}'.\n  Name the folder of its four files with --data FOLDER."
    )
    check_mnist(write_tiny_mnist(tmp_path))
