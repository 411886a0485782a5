"""Scripts that go on from a checkpoint end bit-equal to those that were not interrupted."""

from pathlib import Path
from typing import Any

import pytest
import torch
from support.checkpoints.disks import FullDisk
from support.checkpoints.scripts import NUM_BATCHES, NUM_EPOCHS, Stopped, train
from support.checkpoints.written import plan
from support.pairs import in_turn

import weft
from weft.adapters.alone import Alone
from weft.checkpoints.folder import find_newest
from weft.checkpoints.taking import Checkpoints
from weft.core.errors import CheckpointError, ConfigError
from weft.core.seat import sit

NUM_STEPS = NUM_EPOCHS * NUM_BATCHES


def assert_equal(mine: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> None:
    assert mine.keys() == theirs.keys()
    assert [name for name in mine if not torch.equal(mine[name], theirs[name])] == []


@pytest.mark.parametrize(
    ("optimizer", "every"),
    [
        *in_turn(["SGD", "Adam", "NAdam", "Adafactor"], ["2steps", "1step", "1epoch"]),
        pytest.param("LBFGS", "1step", marks=pytest.mark.slow),
    ],
)
def test_a_script_that_was_stopped_again_and_again_ends_bit_equal(every: str, optimizer: str, tmp_path: Path) -> None:
    whole, _ = train(None, optimizer=optimizer)
    for stop_at in (1, 4, 5, 6, 7, 11, NUM_STEPS):
        with pytest.raises(Stopped):
            train(tmp_path, every, stop_at, optimizer)
    resumed, told = train(tmp_path, every, optimizer=optimizer)
    assert_equal(resumed, whole)
    assert told[0].startswith("goes on from the checkpoint of step ")
    manifest = find_newest(tmp_path).manifest
    assert manifest is not None
    assert (manifest.step, manifest.is_finished) == (NUM_STEPS, True)


def test_checkpoints_change_nothing_of_what_is_computed(tmp_path: Path) -> None:
    assert_equal(train(tmp_path, "1step")[0], train(None)[0])


def test_on_a_full_disk_training_goes_on_and_the_checkpoint_before_is_used(tmp_path: Path) -> None:
    whole, told = train(tmp_path, "2steps", disk=FullDisk(90))
    assert_equal(whole, train(None)[0])
    assert told[0].startswith("THE CHECKPOINT OF STEP ")
    assert find_newest(tmp_path).path is not None
    assert_equal(train(tmp_path, "2steps")[0], whole)


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        ({"width": 5}, r"the checkpoint has 0.weight \(4, 3\) torch.float32 where the script's model has 0.weight"),
        ({"optimizer": "SGD"}, "the checkpoint has the optimizers Adam, but the script's are SGD"),
        ({"kept": "other"}, "'other' the checkpoint has not"),
        ({"batch_size": 3}, "batch 2 of this epoch is not what it was"),
    ],
)
def test_another_script_is_refused_with_what_differs(changes: dict[str, Any], because: str, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        train(tmp_path, "2steps", 3)
    with pytest.raises(CheckpointError, match=because):
        train(tmp_path, "2steps", **changes)


def join(folder: Path) -> Any:
    """A worker with checkpoints."""
    seat = Alone()
    seat.checkpoints = Checkpoints(plan(folder), print)
    before = sit(seat)
    try:
        model = torch.nn.Linear(2, 1)
        return weft.join(model, torch.optim.SGD(model.parameters(), lr=0.1))
    finally:
        sit(before)


class Odd:
    def state_dict(self) -> dict[str, Any]:
        return {"function": len}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Never called."""


def test_what_a_checkpoint_cannot_hold_is_refused_by_name(tmp_path: Path) -> None:
    worker = join(tmp_path)
    with pytest.raises(ConfigError, match=r"worker.keep\(best=...\) was given a float, which has no state_dict"):
        worker.keep(best=0.5)
    with pytest.raises(ConfigError, match=r"'kept.odd.function' is a builtins.builtin_function_or_method, which"):
        worker.keep(odd=Odd())


def test_loops_whose_place_is_not_known_are_refused_by_name(tmp_path: Path) -> None:
    data = [torch.zeros(1, 2)]
    with pytest.raises(ConfigError, match=r"only if its epochs come from worker.epochs"):
        next(iter(join(tmp_path).share(data)))
    worker = join(tmp_path)
    next(worker.epochs(2))
    with pytest.raises(ConfigError, match=r"worker.epochs was called twice"):
        next(worker.epochs(2))
    with pytest.raises(ConfigError, match="cannot be read again from its beginning"):
        next(iter(worker.share(iter(data))))
    with pytest.raises(ConfigError, match=r"worker.keep was called after worker.epochs"):
        worker.keep(odd=Odd())
