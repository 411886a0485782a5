"""Checkpoints of several workers: when one is due, who adds what, when it is complete, and what ends one early."""

from pathlib import Path

import msgspec
import pytest
from support.checkpoints.disks import FullDisk
from support.checkpoints.supervised import BY_SECONDS, PHASES, Run
from support.checkpoints.written import write_checkpoint

from weft.checkpoints.folder import check, find_newest, partials_in, steps_in
from weft.checkpoints.manifest import read_manifest
from weft.engines.real import timeouts
from weft.runtime.checkpoint_messages import CheckpointDue, PartLost, TakePart
from weft.runtime.view_messages import GoOn, LookTold, RestAsked, RestAt, Resting, RestTold


def not_written(folder: Path, step: int, why: str) -> str:
    return (
        f"THE CHECKPOINT OF STEP {step} IS NOT WRITTEN to '{folder}': {why}. Training goes on; "
        "the checkpoints before it are as they were"
    )


def test_all_rest_copy_go_on_and_write_and_then_the_checkpoint_has_its_name(tmp_path: Path) -> None:
    run = Run(tmp_path).come_to("looking")
    for rank in (0, 1):
        run.rest.hear(rank, LookTold(1, {}, {}, True), 0.0)
    run.said()
    for rank in (0, 1):
        run.rest.hear(rank, LookTold(2, {}, {}, True), 0.0)
    assert run.said() == [(0, TakePart(10, 0, 1)), (1, TakePart(10, 1, 1))]
    assert run.hear(1, run.copied(1)) == []
    assert run.hear(0, run.copied(0)) == [(0, GoOn()), (1, GoOn())]
    run.hear(1, run.written(1))
    assert steps_in(tmp_path) == []
    run.hear(0, run.written(0))
    manifest = check(tmp_path / "step-000000010")
    assert (manifest.is_finished, run.words) == (False, [])
    assert [part.rank for part in manifest.workers] == [0, 1]


def test_what_is_left_of_the_members_is_numbered_by_place(tmp_path: Path) -> None:
    run = Run(tmp_path, num_workers=3)
    run.views.members.remove(1)
    run.come_to("copying")
    assert run.orders == {0: TakePart(10, 0, 1), 2: TakePart(10, 1, 1)}
    for rank in (0, 2):
        run.hear(rank, run.copied(rank))
    manifest = check(run.write_all().folder / "step-000000010")
    assert (len(manifest.workers), manifest.facts.num_workers) == (2, 9), "as many as it was asked for"


def test_by_the_clock_one_is_due_so_many_seconds_after_all_train_and_after_the_last(tmp_path: Path) -> None:
    run = Run(tmp_path, BY_SECONDS)
    asked = [(0, RestAsked(1, True)), (1, RestAsked(1, True))]
    assert [run.turn(now_s) for now_s in (5.0, 64.0, 65.0, 66.0)] == [[], [], asked, []]
    run.lose(1)
    run.views.members = [0]
    run.said()
    run.views._settled = run.views.view
    assert [run.turn(now_s) for now_s in (124.0, 125.0)] == [[], [(0, RestAsked(2, True))]]


def test_nothing_is_due_before_all_train(tmp_path: Path) -> None:
    run = Run(tmp_path, BY_SECONDS)
    run.views._laid_out.pop(1)
    assert run.turn(0.0) == run.turn(100.0) == []
    run.views.lay_out(1)
    assert run.turn(110.0) == []
    assert len(run.turn(170.0)) == 2


def test_where_all_are_in_step_one_is_due_when_all_have_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 100.0)
    run = Run(tmp_path)
    run.turn(100.0)
    run.hear(1, CheckpointDue(True))
    assert run.turn(100.0 + timeouts.CHECKPOINT_DUE_S / 2) == []
    run.hear(0, CheckpointDue(True))
    assert len(run.turn(100.1)) == 2


def test_who_stops_alone_though_all_are_in_step_is_not_waited_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 100.0)
    run = Run(tmp_path)
    run.turn(100.0)
    run.hear(1, CheckpointDue(True))
    assert len(run.turn(100.1 + timeouts.CHECKPOINT_DUE_S)) == 2


def test_where_they_are_not_in_step_one_is_due_when_any_has_stopped(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.turn()
    run.hear(1, CheckpointDue(False))
    assert len(run.turn()) == 2


def test_workers_that_have_stopped_while_the_one_before_is_written_are_held_until_that_is_done(tmp_path: Path) -> None:
    run = Run(tmp_path).come_to("writing")
    assert not run.checkpoints.holds_workers
    for rank in (0, 1):
        run.hear(rank, CheckpointDue(True))
        assert run.checkpoints.holds_workers
    assert run.turn(1.0) == []
    assert len(run.write_all().turn(1.0)) == 2


def test_who_stops_when_all_are_asked_to_rest_already_asks_for_no_further_one(tmp_path: Path) -> None:
    run = Run(tmp_path).come_to("asking")
    run.hear(0, CheckpointDue(True))
    run.checkpoints.lose()
    run.said()
    assert run.turn(1e9) == []


def test_a_checkpoint_waits_until_a_view_is_settled_and_another_rest_is_over(tmp_path: Path) -> None:
    run = Run(tmp_path, num_workers=3)
    run.turn()
    run.rest.begin(run.checkpoints)
    run.said()
    for rank in range(3):
        run.hear(rank, CheckpointDue(True))
    assert run.turn() == []
    run.rest.end()
    run.views.leave(2)
    run.said()
    assert run.turn() == []
    run.views._settled = run.views.view
    assert len(run.turn()) == 3


@pytest.mark.parametrize("phase", PHASES[:3])
def test_a_loss_while_all_come_to_rest_breaks_it_off_and_nothing_is_told(phase: str, tmp_path: Path) -> None:
    run = Run(tmp_path).come_to(phase)
    assert run.lose(1) == [(0, GoOn()), (1, GoOn())]
    assert (run.words, run.rest.is_on) == ([], False)


@pytest.mark.parametrize(("phase", "goes_on"), [("copying", True), ("writing", False)])
def test_a_loss_while_parts_are_copied_or_written_ends_it_which_is_told(
    phase: str, goes_on: bool, tmp_path: Path
) -> None:
    write_checkpoint(tmp_path, 5)
    run = Run(tmp_path).come_to(phase)
    run.hear(1, run.written(1))
    assert run.lose(1) == ([(0, GoOn()), (1, GoOn())] if goes_on else [])
    assert run.words == [not_written(tmp_path, 10, "a worker was lost meanwhile")]
    assert (steps_in(tmp_path), partials_in(tmp_path)) == ([5], [])
    run.hear(0, run.copied(0))
    run.hear(0, PartLost(1, "of one that is over"))
    assert (len(run.words), steps_in(tmp_path)) == (1, [5])


@pytest.mark.parametrize(("phase", "goes_on"), [("copying", True), ("writing", False)])
def test_a_part_that_cannot_be_written_ends_it_which_is_told_once(phase: str, goes_on: bool, tmp_path: Path) -> None:
    run = Run(tmp_path).come_to(phase)
    run.hear(0, run.written(0))
    assert run.hear(1, PartLost(1, "No space left on device")) == ([(0, GoOn()), (1, GoOn())] if goes_on else [])
    run.hear(0, PartLost(1, "No space left on device"))
    assert run.words == [not_written(tmp_path, 10, "No space left on device")]
    assert (steps_in(tmp_path), partials_in(tmp_path)) == ([], [])


def test_a_disk_that_is_full_when_the_manifest_is_written_leaves_those_before(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 5)
    run = Run(tmp_path, disk=FullDisk(0)).come_to("writing").write_all()
    assert run.words == [not_written(tmp_path, 10, "No space left on device")]
    assert (find_newest(tmp_path).path, partials_in(tmp_path)) == (tmp_path / "step-000000005", [])


def test_where_a_script_has_stopped_in_no_share_all_go_on_and_why_is_told(tmp_path: Path) -> None:
    run = Run(tmp_path).come_to("stopping")
    run.rest.hear(1, Resting(run.number, 10, "it has no epochs"), 0.0)
    assert run.said() == [(0, GoOn()), (1, GoOn())]
    assert run.words == [not_written(tmp_path, 10, "it has no epochs")]


def test_when_scripts_end_one_whose_parts_are_not_asked_for_is_given_up(tmp_path: Path) -> None:
    run = Run(tmp_path).come_to("stopping")
    assert run.turn(is_ending=True) == [(0, GoOn()), (1, GoOn())]
    assert run.turn(is_ending=True) == []


def test_when_scripts_end_those_that_have_stopped_for_one_go_on(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.turn()
    run.hear(0, CheckpointDue(True))
    assert run.turn(is_ending=True) == [(0, GoOn()), (1, GoOn())]
    assert run.turn(is_ending=True) == []


@pytest.mark.parametrize("was_stopped", [True, False])
def test_the_last_one_is_taken_once_when_all_have_ended_and_says_whether_they_were_told_to(
    was_stopped: bool, tmp_path: Path
) -> None:
    run = Run(tmp_path)
    run.checkpoints.end({0: 12, 1: 12}, was_stopped=was_stopped)
    assert run.said() == [(0, TakePart(12, 0, 1)), (1, TakePart(12, 1, 1))]
    run.checkpoints.end({0: 12, 1: 12}, was_stopped=was_stopped)
    assert [run.hear(rank, run.copied(rank)) for rank in (0, 1)] == [[], []], "nobody rests"
    run.write_all()
    assert check(tmp_path / "step-000000012").is_finished is not was_stopped
    told = f"stopped at step 12, 0 of 3 epochs and 1 batch; the checkpoint is in '{tmp_path}', and the same command "
    assert run.words == ([f"{told}goes on"] if was_stopped else [])


def test_of_a_run_that_is_cut_short_by_steps_is_told_how_it_goes_on(tmp_path: Path) -> None:
    run = Run(tmp_path, steps_max=12)
    run.checkpoints.end({0: 12, 1: 12}, was_stopped=False)
    run.said()
    (told,) = run.write_all().words
    assert told.endswith("and the same command without --steps, or with more of them, goes on")


def test_the_last_one_takes_the_place_of_one_that_is_still_being_written_also_of_the_same_step(tmp_path: Path) -> None:
    run = Run(tmp_path).come_to("writing")
    late = [(rank, run.written(rank)) for rank in (0, 1)]
    run.checkpoints.end({0: 10, 1: 10}, was_stopped=False)
    assert run.said() == [(0, TakePart(10, 0, 2)), (1, TakePart(10, 1, 2))]
    assert partials_in(tmp_path) == []
    for rank, message in late:
        run.hear(rank, message)
    run.hear(1, PartLost(1, "No such file or directory"))
    assert (run.words, steps_in(tmp_path)) == ([], []), "parts of the one before do not count"
    run.write_all()
    assert check(tmp_path / "step-000000010").is_finished


def test_if_nothing_was_trained_since_the_last_one_it_is_marked_as_finished(tmp_path: Path) -> None:
    run = Run(tmp_path).come_to("writing").write_all()
    before = read_manifest(tmp_path / "step-000000010")
    run.checkpoints.end({0: 10, 1: 10}, was_stopped=False)
    run.said()
    run.write_all()
    after = read_manifest(tmp_path / "step-000000010")
    assert (before.is_finished, after.is_finished) == (False, True)
    assert [part.file for part in after.workers] == [part.file for part in before.workers]
    assert partials_in(tmp_path) == []


def test_if_only_one_that_was_behind_has_trained_since_the_last_one_it_is_written_anew(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.turn()
    run.hear(0, CheckpointDue(False))
    run.turn()
    for rank in (0, 1):
        run.rest.hear(rank, RestTold(run.number, 4, 0, False), 0.0)
    run.rest.hear(0, Resting(run.number, 10), 0.0)
    run.rest.hear(1, Resting(run.number, 4), 0.0)
    for rank in (0, 1, 0, 1):
        run.said()
        run.rest.hear(rank, LookTold(run.look, {}, {}, True), 0.0)
    run.said()
    run.write_all()
    assert not read_manifest(tmp_path / "step-000000010").is_finished
    run.checkpoints.end({0: 10, 1: 9}, was_stopped=False)
    run.said()
    late = run.written(1)
    run.hear(1, msgspec.structs.replace(late, part=msgspec.structs.replace(late.part, num_batches=7)))
    run.hear(0, run.written(0))
    after = check(tmp_path / "step-000000010")
    assert (after.is_finished, [part.num_batches for part in after.workers]) == (True, [1, 7])


def test_what_was_still_written_of_one_that_was_dropped_is_removed_when_the_next_is_complete(tmp_path: Path) -> None:
    run = Run(tmp_path).come_to("copying")
    run.hear(1, PartLost(1, "No space left on device"))
    run.written(0)
    assert len(partials_in(tmp_path)) == 1
    run.checkpoints.end({0: 12, 1: 12}, was_stopped=False)
    run.said()
    run.write_all()
    assert (steps_in(tmp_path), partials_in(tmp_path)) == ([12], [])


def test_a_run_that_goes_on_counts_its_steps_from_the_checkpoint(tmp_path: Path) -> None:
    resume = write_checkpoint(tmp_path, 40, num_workers=3)
    run = Run(tmp_path, resume=resume).come_to("writing").write_all()
    assert steps_in(tmp_path) == [50, 40]
    run.checkpoints.end({0: 0, 1: 0}, was_stopped=True)
    assert run.said() == [(0, TakePart(40, 0, 2)), (1, TakePart(40, 1, 2))]


def test_a_run_that_goes_on_and_trains_nothing_leaves_the_checkpoint_as_it_was(tmp_path: Path) -> None:
    resume = write_checkpoint(tmp_path, 40, num_workers=3)
    run = Run(tmp_path, resume=resume)
    run.checkpoints.end({0: 0, 1: 0}, was_stopped=True)
    run.said()
    run.write_all()
    assert check(resume).facts.num_workers == 3
    assert (steps_in(tmp_path), partials_in(tmp_path)) == ([40], [])


def test_one_checkpoint_after_another_and_all_are_told_where_to_stop(tmp_path: Path) -> None:
    run = Run(tmp_path).come_to("writing").write_all()
    run.come_to("asking", 20)
    for rank in (0, 1):
        run.rest.hear(rank, RestTold(run.number, 20, 1, True), 0.0)
    assert run.said() == [(0, RestAt(20)), (1, RestAt(20))], "they have stopped there already"
