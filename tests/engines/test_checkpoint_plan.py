"""What is decided before a run with checkpoints starts."""

from pathlib import Path

import msgspec
import pytest
from support.checkpoints.written import facts, write_checkpoint

from weft.checkpoints.disk import Disk
from weft.checkpoints.folder import partial_of
from weft.checkpoints.interval import EVERY
from weft.checkpoints.writing import mark_finished
from weft.core.errors import ConfigError
from weft.engines.checkpoint_plan import nothing_left, plan_checkpoints, script_digest


def test_a_new_folder_is_made_and_the_newest_checkpoint_of_an_old_one_is_found(tmp_path: Path) -> None:
    planned = plan_checkpoints(tmp_path / "a" / "b", facts())
    planned.close()
    assert (planned.plan.resume, planned.plan.every, planned.told, planned.finished) == (None, EVERY, [], None)
    path = write_checkpoint(tmp_path / "a" / "b", 3)
    (path.parent / partial_of(9)).mkdir()
    planned = plan_checkpoints(tmp_path / "a" / "b", facts())
    planned.close()
    assert (planned.plan.resume, len(planned.told), planned.finished) == (str(path), 1, None)
    assert not (path.parent / partial_of(9)).exists()


def test_only_the_very_same_run_has_nothing_left_to_do(tmp_path: Path) -> None:
    mark_finished(write_checkpoint(tmp_path, 3), Disk())
    same, longer = facts(), msgspec.structs.replace(facts(), arguments=["--epochs", "9"])
    finished = []
    for each in (same, longer):
        planned = plan_checkpoints(tmp_path, each)
        planned.close()
        finished.append(planned.finished)
    assert finished[0] is not None
    assert finished[1] is None
    assert nothing_left("runs/a", finished[0]) == (
        "the run in 'runs/a' has finished (step 3, 1 of 3 epochs and 2 batches); there is nothing left to do. "
        "Give another folder to train anew"
    )


def test_steps_count_from_the_beginning_of_the_run(tmp_path: Path) -> None:
    before = facts(steps_max=3)
    mark_finished(write_checkpoint(tmp_path, 3, run=before), Disk())
    plan_checkpoints(tmp_path, facts(steps_max=4)).close()
    planned = plan_checkpoints(tmp_path, before)
    planned.close()
    assert planned.finished is not None
    assert nothing_left("runs/a", planned.finished) == (
        "the run in 'runs/a' has finished (step 3, 1 of 3 epochs and 2 batches); there is nothing left to do. "
        "Use more --steps to go on, or none; give another folder to train anew"
    )
    with pytest.raises(ConfigError) as refused:
        plan_checkpoints(tmp_path, facts(steps_max=2))
    assert str(refused.value) == (
        f"--steps 2 counts from the run's beginning, but the newest checkpoint in '{tmp_path}' is of step 3.\n"
        "  Use more steps, or give another folder."
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": 7}, "with --seed 0, but this one is with --seed 7"),
        ({"global_batch": 7}, "with data.global_batch=None, but this one is with data.global_batch=7"),
    ],
)
def test_a_checkpoint_of_another_kind_of_run_is_refused(change: dict[str, object], words: str, tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 3)
    for _ in range(2):  # the folder is not left locked
        with pytest.raises(ConfigError) as caught:
            plan_checkpoints(tmp_path, msgspec.structs.replace(facts(), **change))
        assert str(caught.value) == (
            f"the checkpoints in '{tmp_path}' are of a run {words}.\n  Run it as it was, or give another folder."
        )


@pytest.mark.parametrize(
    ("theirs", "mine", "words"),
    [
        (3, 1, "of 3 workers {}, and this run is of one worker: {}  Use -n 2 or more {}"),
        (1, 3, "of one worker {}, and this run is of 3 workers: {}  Use -n 1 {}"),
    ],
)
def test_one_worker_and_several_fit_each_other_between_epochs_only_and_what_to_do_is_said(
    theirs: int, mine: int, words: str, tmp_path: Path
) -> None:
    write_checkpoint(tmp_path, 3, num_workers=theirs)
    with pytest.raises(ConfigError) as caught:
        plan_checkpoints(tmp_path, facts(mine))
    where = "within an epoch (step 3, 1 of 3 epochs and 2 batches)"
    why = "a single worker reads its data in an order of its own.\n"
    what = "up to the end of an epoch (--checkpoint-every 1epoch), or give another folder."
    assert str(caught.value) == f"the newest checkpoint in '{tmp_path}' is {words.format(where, why, what)}"
    write_checkpoint(tmp_path, 2, num_workers=theirs, num_batches=0)
    with pytest.raises(
        ConfigError, match=r"with a copy of 'step-000000002' in it, which was taken between two epochs\.$"
    ):
        plan_checkpoints(tmp_path, facts(mine))
    newer = write_checkpoint(tmp_path, 4, num_workers=theirs, num_batches=0)
    planned = plan_checkpoints(tmp_path, facts(mine))
    planned.close()
    assert planned.plan.resume == str(newer)


def test_a_script_is_known_again_by_its_text(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1")
    (tmp_path / "b.py").write_text("1")
    assert script_digest(tmp_path / "a.py") == script_digest(tmp_path / "b.py") != ""
    assert script_digest(tmp_path) == ""
