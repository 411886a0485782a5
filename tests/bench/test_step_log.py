"""The log that each process of `weft bench recovery` keeps."""

import os
import time
from pathlib import Path

import pytest

from weft.bench import step_log
from weft.bench.step_log import LogFolder, ProcessLog, RecoveryTask, StepLog, own_recovery_task


def test_what_a_process_logs_is_read_as_it_comes(tmp_path: Path) -> None:
    folder = LogFolder(tmp_path)
    assert folder.read() == []
    before_s = time.monotonic()
    log = StepLog(str(tmp_path), 3)
    log.began(32)
    (new,) = folder.read()
    assert (new.rank, new.pid, new.last_step) == (3, os.getpid(), 0)
    log.committed(7)
    log.began(16)
    assert folder.read() == []
    log.scored(0.5)
    folder.read()
    assert folder.logs == [new]
    first, second = new.steps
    assert (first.num_samples, first.step) == (32, 7)
    assert (second.num_samples, second.step, second.committed_s) == (16, None, None)
    assert new.started_s is not None
    assert first.committed_s is not None
    assert before_s - 1e-3 <= new.started_s <= first.began_s <= first.committed_s <= second.began_s <= time.monotonic()
    assert (new.last_step, new.accuracy) == (7, 0.5)


def test_a_line_counts_when_its_end_is_there(tmp_path: Path) -> None:
    folder = LogFolder(tmp_path)
    with (tmp_path / "0.11").open("w") as file:
        for piece, num_steps in (("started 3.0 0\nbegan 4", 0), (".5 3", 0), ("2\n", 1), ("committed 5.5 1", 1)):
            file.write(piece)
            file.flush()
            folder.read()
            assert sum(len(log.steps) for log in folder.logs) == num_steps
    (log,) = folder.logs
    assert (log.steps[0].began_s, log.steps[0].num_samples, log.steps[0].step) == (4.5, 32, None)


def test_logs_are_in_the_order_of_starts_and_other_files_are_none(tmp_path: Path) -> None:
    folder = LogFolder(tmp_path)
    (tmp_path / "0.12").write_text("started 5.0 0\n")
    (tmp_path / "0.11").write_text("started 3.0 0\n")
    (tmp_path / "0.13").write_text("")
    (tmp_path / "snapshot.pt").write_text("none")
    folder.read()
    assert [log.pid for log in folder.logs] == [11, 12]


def test_the_last_step_is_heard_of_by_processes_that_run(tmp_path: Path) -> None:
    folder = LogFolder(tmp_path)
    log = StepLog(str(tmp_path), 0)
    log.began(1)
    assert not log.committed(1_000_000)
    folder.end_after(5)
    assert [log.committed(step) for step in (4, 5, 6)] == [False, True, True]


def test_the_last_step_of_a_process_is_that_of_the_batch_before_while_it_works_on_another() -> None:
    log = ProcessLog(0, 1)
    for line in ("started 1 0", "began 2 8", "committed 3 41", "began 4 8"):
        log.take(line)
    assert log.last_step == 41


def test_a_task_is_told_in_one_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    task = RecoveryTask("/folder", "/data", 4, 32, 0.02, 20, 7)
    monkeypatch.setattr("sys.argv", ["script.py", task.text()])
    monkeypatch.setattr(step_log, "die_with_parent", lambda: None)
    assert own_recovery_task() == task
