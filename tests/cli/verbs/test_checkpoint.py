"""weft checkpoint show."""

from pathlib import Path

from msgspec.structs import replace
from support.checkpoints.written import write_checkpoint
from support.processes.commands import assert_refused, weft_command

from weft.checkpoints.disk import Disk
from weft.checkpoints.manifest import MANIFEST, encode, read_manifest
from weft.checkpoints.writing import mark_finished


def test_the_newest_complete_checkpoint_is_shown_and_damaged_ones_are_named(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 1)
    path = write_checkpoint(tmp_path, 2)
    mark_finished(path, Disk())
    (write_checkpoint(tmp_path, 3) / "tensors.safetensors").write_bytes(b"")
    shown = weft_command("checkpoint", "show", tmp_path)
    assert (shown.code, shown.err) == (0, "")
    passed, first, *lines = shown.out.splitlines()
    assert passed.startswith(f"'{tmp_path / 'step-000000003'}' is passed over: ")
    assert first == f"{path} is complete; its run has finished"
    assert lines[0] == "  at         step 2, 1 of 3 epochs and 2 batches"
    assert "  kept       nothing besides the model and its optimizers" in lines
    assert "  others     step 3, step 1" in lines
    assert lines[-1] == "    worker.model.w (100,) F32"
    one = weft_command("checkpoint", "show", path.parent / "step-000000001")
    assert one.out.startswith(f"{tmp_path / 'step-000000001'} is complete\n")


def test_a_folder_without_checkpoints_is_refused(tmp_path: Path) -> None:
    assert_refused(
        *("checkpoint", "show", tmp_path),
        because=f"there is no checkpoint in '{tmp_path}'.\n  Give a folder that a run wrote checkpoints into.",
    )
    assert_refused(
        *("checkpoint", "show", tmp_path / "no"),
        because=f"'{tmp_path / 'no'}' is no folder.\n  Give the one that --checkpoint was given.",
    )


def test_a_manifest_of_no_workers_is_refused_without_a_traceback(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, 1)
    manifest = read_manifest(path)
    empty = replace(manifest, facts=replace(manifest.facts, num_workers=0), workers=[])
    (path / MANIFEST).write_bytes(encode(empty))
    shown = weft_command("checkpoint", "show", tmp_path)
    assert shown.code != 0
    assert "it is of no workers" in shown.err
    assert "Traceback" not in shown.err
