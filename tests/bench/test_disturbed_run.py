"""One run of a contender of `weft bench recovery`."""

import os
import sys
from pathlib import Path

import pytest
from support.processes.launches import wait_until

from weft.bench import disturbed_run
from weft.bench.disturbed_run import DisturbedRun, PlannedKill, RunRecord, planned_kills
from weft.bench.recovery_figures import committed_steps, full_strength_s
from weft.bench.step_log import RecoveryTask
from weft.core.errors import NodeLost

SURVIVORS = Path(__file__).with_name("fake_survivors.py")


def disturbed(plan: list[PlannedKill], how: str = "", seconds: float = 0.5) -> RunRecord:
    with DisturbedRun("fake", 2) as run:
        task = RecoveryTask(str(run.folder), how, 2, 8, 0.1, 1, 0)
        return run.run([sys.executable, str(SURVIVORS), task.text()], os.environ, seconds, plan)


def test_kills_come_by_seed_after_half_to_one_and_a_half_times_the_interval() -> None:
    kills = planned_kills(15.0, 1500.0, 4, 7)
    assert kills == planned_kills(15.0, 1500.0, 4, 7) != planned_kills(15.0, 1500.0, 4, 8)
    gaps = [after.after_s - before.after_s for before, after in zip([PlannedKill(0.0, 0), *kills], kills)]
    assert all(7.5 <= gap <= 22.5 for gap in gaps)
    assert sum(gaps) / len(gaps) == pytest.approx(15.0, rel=0.1)
    assert {kill.rank for kill in kills} == {0, 1, 2, 3}
    assert kills[-1].after_s <= 1492.5
    assert planned_kills(15.0, 10.0, 4, 7) == []


@pytest.mark.processes
def test_workers_are_killed_by_plan_and_the_run_goes_on_until_they_are_back() -> None:
    record = disturbed([PlannedKill(0.1, 1), PlannedKill(0.5, 0)])
    assert [kill.rank for kill in record.kills] == [1, 0]
    assert record.num_missed == 0
    assert sorted(log.rank for log in record.logs) == [0, 0, 1, 1]
    first = {log.rank: log.pid for log in reversed(record.logs)}
    assert [kill.pid for kill in record.kills] == [first[1], first[0]]
    assert all(kill.at_s >= record.begin_s + after_s for kill, after_s in zip(record.kills, (0.1, 0.5)))
    assert record.end_s - record.begin_s == 0.5
    steps = committed_steps(record.logs)
    assert all(0 < full_strength_s(kill, steps, 2) < 30 for kill in record.kills)
    assert record.accuracy == 0.75


@pytest.mark.processes
def test_a_worker_that_is_not_back_yet_is_not_killed_again() -> None:
    record = disturbed([PlannedKill(0.1, 1), PlannedKill(0.1, 1)])
    assert (len(record.kills), record.num_missed) == (1, 1)


@pytest.mark.processes
def test_a_contender_that_fails_is_quoted_and_nothing_of_it_is_left() -> None:
    with pytest.raises(NodeLost, match=r"contender 'fake' ended with exit code 1. Its last words:\n  a worker is dead"):
        disturbed([PlannedKill(0.0, 0)], "fails", seconds=30.0)
    nothing_is_left()


@pytest.mark.processes
def test_a_contender_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disturbed_run, "END_S_MAX", 0.5)
    with pytest.raises(NodeLost, match=r"contender 'fake' had not ended 0 s after its last step. Its last words:"):
        disturbed([], "lingers", seconds=0.0)
    nothing_is_left()


@pytest.mark.processes
def test_a_contender_that_makes_no_steps_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disturbed_run, "START_S_MAX", 0.0)
    with pytest.raises(
        NodeLost, match=r"had not made 10 steps on each worker after 0 s. Its last words:\n  It said no"
    ):
        disturbed([])
    nothing_is_left()


def nothing_is_left() -> None:
    """The kernel ends workers whose launcher is gone, in a moment."""
    wait_until(lambda: not any(map(_is_survivor, Path("/proc").glob("[0-9]*"))), "their end", lambda: None)


def _is_survivor(process: Path) -> bool:
    try:
        return str(SURVIVORS).encode() in (process / "cmdline").read_bytes()
    except OSError:
        return False
