"""One worker's checkpoints: when they are due, and that a full disk is told of loudly."""

from pathlib import Path

import numpy as np
import pytest
from support.checkpoints.disks import FullDisk
from support.checkpoints.written import plan, write_checkpoint

from weft.checkpoints.disk import Disk
from weft.checkpoints.folder import find_newest, partials_in
from weft.checkpoints.forms import Packing
from weft.checkpoints.interval import CheckpointInterval
from weft.checkpoints.taking import Checkpoints
from weft.checkpoints.writing import Position
from weft.core.errors import CheckpointError


def take(checkpoints: Checkpoints, step: int) -> None:
    packing = Packing(lambda value: None)
    state = packing.pack({"w": np.zeros(3)}, "worker")
    checkpoints.take(step, Position(0, step, 1.0), state, packing.tensors, 3, [])


def test_steps_and_epochs_are_due_once_each_and_also_when_their_moment_was_missed(tmp_path: Path) -> None:
    checkpoints = Checkpoints(plan(tmp_path, CheckpointInterval(steps=10)), print)
    assert [step for step in range(1, 40) if checkpoints.is_due(step, None)][:3] == [10, 11, 12]
    take(checkpoints, 12)
    assert [step for step in range(1, 40) if checkpoints.is_due(step, None)][:2] == [20, 21]
    epochs = Checkpoints(plan(tmp_path, CheckpointInterval(epochs=2)), print)
    assert [(step, ended) for step in (5,) for ended in (None, 1, 2, 3, 4) if epochs.is_due(step, ended)] == [
        (5, 2),
        (5, 4),
    ]


def test_time_is_counted_since_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    checkpoints = Checkpoints(plan(tmp_path, CheckpointInterval(seconds=60)), print)
    seen = []
    for now[0] in (59.0, 61.0):
        seen.append(checkpoints.is_due(1, None))
    take(checkpoints, 1)
    for now[0] in (120.0, 121.0):
        seen.append(checkpoints.is_due(2, None))
    assert seen == [False, True, False, True]


def test_a_full_disk_is_told_of_and_the_one_before_is_as_it_was(tmp_path: Path) -> None:
    told: list[str] = []
    write_checkpoint(tmp_path, 1)
    checkpoints = Checkpoints(plan(tmp_path), told.append, disk=FullDisk(1))
    take(checkpoints, 2)
    assert told == [
        f"THE CHECKPOINT OF STEP 2 IS NOT WRITTEN to '{tmp_path}': No space left on device. Training goes on; "
        "the checkpoints before it are as they were"
    ]
    assert (find_newest(tmp_path).path, partials_in(tmp_path)) == (tmp_path / "step-000000001", [])
    checkpoints._disk = Disk()
    take(checkpoints, 3)
    assert find_newest(tmp_path).path == tmp_path / "step-000000003"


def test_a_model_that_is_not_fit_to_be_kept_is_told_of(tmp_path: Path) -> None:
    told: list[str] = []
    checkpoints = Checkpoints(plan(tmp_path), told.append)
    checkpoints.refuse(4, CheckpointError("'w' has NaN.\n  Do this."))
    assert told[0].startswith("THE CHECKPOINT OF STEP 4 IS NOT WRITTEN")
    assert "'w' has NaN" in told[0]


def test_a_finished_run_says_so(tmp_path: Path) -> None:
    checkpoints = Checkpoints(plan(tmp_path), print)
    checkpoints.finish()
    take(checkpoints, 2)
    checkpoints.finish()
    manifest = find_newest(tmp_path).manifest
    assert manifest is not None
    assert manifest.is_finished
