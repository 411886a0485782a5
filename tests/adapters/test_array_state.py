"""Checkpoints of scripts that join with arrays."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.checkpoints.disks import QuickDisk
from support.checkpoints.written import facts

import weft
from weft.adapters.alone import Alone
from weft.checkpoints.folder import find_newest
from weft.checkpoints.interval import read_interval
from weft.checkpoints.taking import CheckpointPlan, Checkpoints
from weft.core.errors import CheckpointError
from weft.core.seat import sit

NUM_STEPS = 3 * 5


class Stopped(Exception):
    """The process was killed."""


def train(
    folder: Path | None, every: str = "2steps", stop_at: int | None = None, given: dict[str, Any] | None = None
) -> tuple[list[float], list[str]]:
    """The numbers in the end, and what was told; raises Stopped after the update of step `stop_at`."""
    told: list[str] = []
    seat = Alone()
    if folder is not None:
        found = find_newest(folder).path
        plan = CheckpointPlan(str(folder), facts(), read_interval(every, ""), None if found is None else str(found))
        seat.checkpoints = checkpoints = Checkpoints(plan, told.append, disk=QuickDisk())
    before = sit(seat)
    np.random.seed(1)
    random.seed(1)
    try:
        w, b = np.ones(4), np.zeros(1, np.float32)
        worker: Any = weft.join(
            arrays={"w": w, "b": b}, **(given or {"optimizer": weft.Momentum(lr=0.1, momentum=0.9)})
        )
        counts = {"seen": 0}
        worker.keep(counts=counts)
        for _ in worker.epochs(3):
            for rows in worker.share(19, batch_size=4):
                noise = np.random.rand(4) + random.random()
                worker.step({"w": w + noise + rows.mean(), "b": b - 1.0})
                if worker.steps == stop_at:
                    raise Stopped
                w *= 0.99  # what the script writes between two steps counts, too
                counts["seen"] += len(rows)
        if folder is not None:
            checkpoints.on_end(False)
        return [*w.tolist(), *b.tolist(), counts["seen"]], told
    finally:
        sit(before)


@pytest.mark.parametrize("every", ["1step", "2steps", "1epoch"])
def test_a_script_that_was_stopped_again_and_again_ends_bit_equal(every: str, tmp_path: Path) -> None:
    whole, _ = train(None)
    assert whole[-1] == 3 * 19
    for stop_at in (1, 4, 5, 6, 7, 11, NUM_STEPS):
        with pytest.raises(Stopped):
            train(tmp_path, every, stop_at)
    ended, told = train(tmp_path, every)
    assert ended == whole
    assert "goes on from the checkpoint of" in told[0]


def descend(params: dict[str, Any], gradients: dict[str, Any]) -> None:
    for name, array in params.items():
        array -= 0.1 * gradients[name]


def test_a_bare_function_has_no_state_to_keep(tmp_path: Path) -> None:
    given = {"apply": descend}
    whole, _ = train(None, given=given)
    with pytest.raises(Stopped):
        train(tmp_path, stop_at=7, given=given)
    assert train(tmp_path, given=given)[0] == whole


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"optimizer": weft.SGD(lr=0.1)}, "Momentum, but the script's is SGD"),
        ({"apply": descend}, "is a bare function"),
    ],
)
def test_another_optimizer_is_refused(given: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        train(tmp_path, stop_at=7)
    with pytest.raises(CheckpointError, match=f"the checkpoint has the optimizer .*{words}"):
        train(tmp_path, given=given)


def test_numbers_that_are_not_finite_are_not_kept(tmp_path: Path) -> None:
    with np.errstate(all="ignore"):
        _, told = train(tmp_path, given={"optimizer": weft.SGD(lr=1e200)})
    assert "IS NOT WRITTEN" in told[0]
    assert "'w' has" in told[0]
