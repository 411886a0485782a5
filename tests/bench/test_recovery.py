"""`weft bench recovery`: who goes on how soon when a worker is killed."""

import os
import sys
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

import pytest
from support.scripts.mnist_files import write_mnist

from weft.bench import recovery
from weft.bench.disturbed_run import DisturbedRun, PlannedKill, RunRecord
from weft.bench.foretold import ForetoldCourse, foretold_goodput
from weft.bench.recovery import (
    RecoveryWorkload,
    contender,
    measure_recovery,
    missing_torchft,
    run_figures,
    run_once,
    verdicts,
)
from weft.bench.recovery_figures import WorkerKill, committed_steps
from weft.bench.step_log import LoggedStep, ProcessLog
from weft.core.errors import ConfigError, NodeLost


def small(folder: Path, **said: Any) -> RecoveryWorkload:
    usual: dict[str, Any] = {"num_workers": 2, "seconds": 1.5, "every_s": 0.3, "batch_size": 8, "lr": 0.01, "width": 2}
    return RecoveryWorkload(write_mnist(folder, train=400), num_blocks_after=0, **(usual | said))


def test_all_contenders_are_told_the_same_and_killed_at_the_same_moments(tmp_path: Path) -> None:
    course = RecoveryWorkload(write_mnist(tmp_path), torchft_python="/other/python")
    task = course.task(tmp_path)
    commands = {name: contender(name, course).command(course, task) for name in recovery.CONTENDERS}
    assert all(command[-1] == task.text() for command in commands.values())
    assert commands["allreduce"][commands["allreduce"].index("--on-loss") + 1] == "replace"
    assert commands["async_gossip"][commands["async_gossip"].index("--strategy") + 1] == "async_gossip"
    assert commands["torchrun"][3:9] == [
        *("torch.distributed.run", "--standalone"),
        *("--nproc-per-node", "4", "--max-restarts", "1000"),
    ]
    assert commands["torchft"][0] == "/other/python"
    assert course.words == "4 workers, a kill every 15 s for 120 s, batches of 32, lr 0.02"
    assert len(course.plan) in range(5, 12)


def test_numbers_of_steps_are_compared_only_where_all_workers_count_alike(tmp_path: Path) -> None:
    course = RecoveryWorkload(write_mnist(tmp_path))
    alike = {name: contender(name, course).are_steps_common for name in (*recovery.CONTENDERS, "ssp(staleness=3)")}
    assert alike == {
        "allreduce": True,
        "async_gossip": False,
        "torchrun": True,
        "torchft": True,
        "ssp(staleness=3)": True,
    }


def test_a_strategy_that_is_not_known_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    told: list[str] = []
    with pytest.raises(ConfigError, match=r"Did you mean 'allreduce'\?"):
        measure_recovery(small(tmp_path), ["allreduce", "alreduce"], told.append)
    assert told == []


def test_time_in_which_nobody_would_be_killed_is_refused(tmp_path: Path) -> None:
    because = "in 16 s with a kill every 15 s, seed 0 kills nobody.\n  Use --seconds 60 or more, or a smaller --every."
    with pytest.raises(ConfigError) as refused:
        RecoveryWorkload(write_mnist(tmp_path), seconds=16.0)
    assert str(refused.value) == because


@pytest.mark.parametrize(
    ("every_s", "seconds"), [(0.0, 10.0), (-1.0, 10.0), (15.0, 5.0), (1.0, 1e9), (nan, 10.0), (1.0, nan)]
)
def test_times_that_make_no_sense_are_refused(every_s: float, seconds: float, tmp_path: Path) -> None:
    because = f"--every is {every_s:g} s and --seconds {seconds:g}, but 0.1 <= every <= seconds <= 86400 is wanted.\n"
    with pytest.raises(ConfigError) as refused:
        RecoveryWorkload(write_mnist(tmp_path), every_s=every_s, seconds=seconds)
    assert str(refused.value) == f"{because}  Use --every 15 --seconds 120."


def test_undisturbed_runs_may_be_shorter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    took: list[float] = []

    def ran(self: DisturbedRun, command: object, env: object, seconds: float, plan: object) -> RunRecord:
        took.append(seconds)
        return QUIET

    monkeypatch.setattr(DisturbedRun, "run", ran)
    for undisturbed_s in (None, 0.5):
        course = small(tmp_path, undisturbed_s=undisturbed_s)
        for plan in (course.plan, []):
            run_once(course, contender("allreduce", course), plan)
    assert took == [1.5, 1.5, 1.5, 0.5]
    with pytest.raises(ConfigError) as refused:
        small(tmp_path, undisturbed_s=0.0)
    because = "--undisturbed is 0 s, but 0.1 to 86400 is wanted.\n  Use --undisturbed 120, or leave it out."
    assert str(refused.value) == because


@pytest.mark.processes
def test_torchft_is_missing_by_name_if_it_cannot_be_imported(tmp_path: Path) -> None:
    assert missing_torchft(sys.executable) == "not installed: pip install torchft-nightly"
    nowhere, broken = tmp_path / "nowhere", tmp_path / "broken"
    assert missing_torchft(str(nowhere)) == f"'{nowhere}' cannot be run: No such file or directory"
    broken.write_text("#!/bin/sh\necho 'ImportError: no such symbol' >&2\nexit 1\n")
    broken.chmod(0o700)
    assert missing_torchft(str(broken)) == "ImportError: no such symbol"
    assert missing_torchft("true") == ""


def log(rank: int, pid: int, started_s: float, begin: int, end: int, first: int, accuracy: float | None) -> ProcessLog:
    """A batch of 10 samples in each second from `begin` to `end`."""
    steps = [LoggedStep(second, 10, first + second - begin, second + 0.5) for second in range(begin, end)]
    return ProcessLog(rank, pid, started_s, steps, accuracy)


QUIET = RunRecord([log(rank, rank, 0.0, 0, 10, 1, 0.9) for rank in (0, 1)], [], 0, 0.0, 10.0)
"""Of two workers without kills."""


def test_figures_of_a_contender_are_made_of_its_logs(tmp_path: Path) -> None:
    struck = log(1, 11, 0.0, 0, 4, 1, None)
    struck.steps.append(LoggedStep(4.0, 10))
    logs = [log(0, 10, 0.0, 0, 10, 1, 0.8), struck, log(1, 12, 6.0, 7, 10, 8, None)]
    disturbed = RunRecord(logs, [WorkerKill(1, 11, 4.2)], 1, 0.0, 10.0)
    course = small(tmp_path)
    figures = run_figures(course, contender("allreduce", course), disturbed, [QUIET, QUIET])
    assert figures == {
        "seconds": 10.0,
        "kills": 1,
        "kills_missed": 1,
        "next_s": [pytest.approx(1.3)],
        "full_s": [pytest.approx(3.3)],
        "started_s": [pytest.approx(1.8)],
        "still_s": [pytest.approx(1.0)],
        "next_p50_s": pytest.approx(1.3),
        "next_p99_s": pytest.approx(1.3),
        "full_p50_s": pytest.approx(3.3),
        "full_p99_s": pytest.approx(3.3),
        "batches_lost": 1,
        "samples_lost": 10,
        "samples_per_s": 17.0,
        "samples_per_s_undisturbed": [20.0, 20.0],
        "goodput": 0.85,
        "goodput_calm": pytest.approx(17.0 / (8 * 10 / 4.2)),
        "accuracy": 0.8,
        "accuracy_undisturbed": [0.9, 0.9],
    }
    never = replace(disturbed, logs=[struck])
    assert run_figures(course, contender("allreduce", course), never, [QUIET])["next_p50_s"] is None


@pytest.mark.parametrize(
    ("change", "missed"),
    [
        ({}, []),
        ({"next_p50_s": 0.31}, ["next_p50_s"]),
        ({"next_p99_s": None}, ["next_p99_s"]),
        ({"goodput_calm": 0.89, "full_p50_s": 3.1}, ["full_p50_s", "goodput"]),
        ({"goodput_calm": None}, ["goodput"]),
        ({"accuracy": 0.98}, ["accuracy"]),
        ({"accuracy": None}, ["accuracy"]),
    ],
)
def test_bars_are_met_or_missed_one_by_one(change: dict[str, Any], missed: list[str]) -> None:
    figures = {"next_p50_s": 0.3, "next_p99_s": 1.0, "full_p50_s": 3.0, "goodput_calm": 0.9, "accuracy": 0.987}
    row = figures | {"accuracy_undisturbed": [0.99, 0.99]} | change
    assert [name for name, is_met in verdicts("allreduce", row).items() if not is_met] == missed


@pytest.mark.processes
def test_a_contender_that_fails_says_so_in_its_row_and_the_others_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    course = small(tmp_path)

    def ran(course: RecoveryWorkload, one: Any, plan: list[PlannedKill]) -> RunRecord:
        if one.name == "torchrun":
            raise NodeLost("it fell")
        return replace(QUIET, kills=[WorkerKill(1, 99, 4.2)] if plan else [])

    monkeypatch.setattr(recovery, "run_once", ran)
    told: list[str] = []
    report = measure_recovery(course, ["torchrun", "allreduce", "torchft"], told.append)
    assert [row.get("missing") for row in report["rows"]] == [
        "it fell",
        None,
        "not installed: pip install torchft-nightly",
    ]
    assert report["ratios"] == {"goodput/allreduce": pytest.approx(1.0, abs=0.1)}
    assert told == [
        "recovery: torchrun, snapshot every 20 steps, undisturbed",
        "recovery: weft allreduce, undisturbed",
        "recovery: weft allreduce, with kills",
        "recovery: weft allreduce, simulated",
    ]
    own = report["rows"][1]
    assert own["step_s_undisturbed"] == 0.8, "two batches of 8 at 20 samples/s"
    foretold = ForetoldCourse("allreduce", 2, len(os.sched_getaffinity(0)), 8, 0.8, 1.5)
    assert own["goodput_foretold"] == foretold_goodput(foretold, course.plan)


def test_ratios_are_of_the_median_time_to_the_next_step() -> None:
    rows: list[dict[str, Any]] = [
        {"rival": "allreduce", "next_p50_s": 0.1, "goodput_calm": 0.95, "bars": {}},
        {"rival": "torchrun", "next_p50_s": 6.0, "goodput_calm": None},
        {"rival": "torchft", "missing": "not installed"},
    ]
    assert recovery.ratios_of(rows) == {"goodput/allreduce": 0.95, "torchrun": pytest.approx(60.0)}


@pytest.mark.processes
def test_weft_goes_on_and_replaces_a_worker_twice(tmp_path: Path) -> None:
    course = small(tmp_path, num_workers=3)
    record = run_once(course, contender("allreduce", course), [PlannedKill(0.1, 1), PlannedKill(1.2, 0)])
    figures = run_figures(course, contender("allreduce", course), record, [QUIET])
    assert (figures["kills"], figures["kills_missed"]) == (2, 0)
    assert None not in figures["full_s"]
    assert figures["batches_lost"] <= 1.0
    steps = committed_steps(record.logs)
    numbers = {rank: [one.step for one in steps if one.rank == rank] for rank in range(3)}
    assert all(len(set(each)) == len(each) for each in numbers.values())  # nothing was done again
    assert record.accuracy is not None


@pytest.mark.processes
def test_torchrun_starts_all_anew_and_what_came_after_the_snapshot_is_lost(tmp_path: Path) -> None:
    course = small(tmp_path, snapshot_steps=1_000_000)
    record = run_once(course, contender("torchrun", course), [PlannedKill(0.2, 1)])
    figures = run_figures(course, contender("torchrun", course), record, [QUIET])
    assert figures["kills"] == 1
    assert sorted(log.rank for log in record.logs) == [0, 0, 1, 1]
    assert figures["next_s"][0] > 1.0
    first = [process.steps[0].step for process in record.logs]
    assert first == [1, 1, 1, 1]
    assert {one.pid for one in committed_steps(record.logs)} == {process.pid for process in record.logs[2:]}
    assert figures["batches_lost"] > 0
    assert record.accuracy is not None
