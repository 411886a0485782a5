"""Finding the newest complete checkpoint: every kind of damage is named and passed over."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.checkpoints.written import write_checkpoint

from weft.checkpoints.folder import find_newest, lock, prepare
from weft.core.errors import CheckpointError, ConfigError


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(bytes(data))


def redirect(path: Path) -> None:
    """A link out of the folder."""
    os.rename(path, path.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent / "elsewhere")


def traverse(path: Path) -> None:
    manifest = json.loads(path.read_text())
    manifest["workers"][0]["file"]["name"] = "../../secret.safetensors"
    path.write_text(json.dumps(manifest))


DAMAGES: list[tuple[str, Callable[[Path], object], str]] = [
    ("tensors.safetensors", os.remove, "it cannot be opened: No such file or directory"),
    ("tensors.safetensors", lambda path: os.truncate(path, 100), "it has 100 bytes, but the manifest says"),
    ("tensors.safetensors", flip, "its digest is another"),
    ("tensors.safetensors", redirect, "it cannot be opened: Too many levels of symbolic links"),
    ("manifest.json", os.remove, "No such file or directory"),
    ("manifest.json", lambda path: os.truncate(path, 40), "Input data was truncated"),
    ("manifest.json", flip, "cannot be read"),
    ("manifest.json", redirect, "it is a link"),
    ("manifest.json", traverse, "its digest is another"),
    ("manifest.json", lambda path: path.write_bytes(b"\x80\x04pickle"), "cannot be read"),
    ("manifest.json", lambda path: path.write_text("[" * 100_000), "cannot be read"),
]


@pytest.mark.parametrize(("name", "damage", "because"), DAMAGES)
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_found(
    name: str, damage: Callable[[Path], object], because: str, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    write_checkpoint(folder, 1)
    damage(write_checkpoint(folder, 2) / name)
    found = find_newest(folder)
    assert found.path == folder / "step-000000001"
    (passed,) = found.passed_over
    assert passed.startswith(f"'{folder / 'step-000000002'}' is passed over: ")
    assert because in passed


def test_if_none_is_complete_the_run_does_not_silently_begin_anew(tmp_path: Path) -> None:
    flip(write_checkpoint(tmp_path, 1) / "tensors.safetensors")
    with pytest.raises(CheckpointError) as caught:
        find_newest(tmp_path)
    assert str(caught.value).startswith(f"no checkpoint in '{tmp_path}' is complete.\n")
    assert str(caught.value).endswith("\n  Remove the folder to begin anew, or give another one.")


def test_one_that_was_being_written_is_named(tmp_path: Path) -> None:
    assert find_newest(tmp_path / "none") == (None, None, [])
    (tmp_path / ".step-000000007.part").mkdir()
    told = [f"'{tmp_path / '.step-000000007.part'}' is passed over: it was not written to its end"]
    assert find_newest(tmp_path) == (None, None, told)
    path = write_checkpoint(tmp_path, 5)
    assert find_newest(tmp_path)[::2] == (path, told)


def test_a_renamed_checkpoint_is_not_taken_for_that_of_another_step(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 1)
    os.rename(write_checkpoint(tmp_path, 2), tmp_path / "step-000000009")
    assert find_newest(tmp_path).path == tmp_path / "step-000000001"


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError) as caught:
        prepare(tmp_path / "file" / "run")
    assert str(caught.value) == (
        f"no checkpoint can be written into '{tmp_path / 'file' / 'run'}': Not a directory.\n  Choose another folder."
    )
    prepare(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []


@pytest.mark.processes
def test_two_runs_do_not_write_into_one_folder(tmp_path: Path) -> None:
    lock(tmp_path)
    code = f"from pathlib import Path; from weft.checkpoints.folder import lock; lock(Path({str(tmp_path)!r}))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"another run writes its checkpoints into '{tmp_path}'" in ended.stderr
