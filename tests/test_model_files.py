"""Model files: which are refused, what permissions they get, and that none is ever half written."""

import errno
import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file
from support.scripts.training_scripts import write

import weft
from weft.core.errors import CheckpointError
from weft.model_files import regular_file, write_model

SCRIPT = """
import resource
import numpy as np
import weft

w = np.zeros(10_000)
worker = weft.join(arrays={"w": w}, optimizer=weft.SGD(lr=0.1))
for epoch in worker.epochs(2):
    for rows in worker.share(8, batch_size=2):
        worker.step({"w": w}, samples=len(rows))
    if epoch == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        worker.save("model")
"""


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


def _mode(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))


def _write(text: bytes = b"new") -> Any:
    return lambda path: Path(path).write_bytes(text)


def test_a_new_file_has_the_permissions_that_the_umask_gives(tmp_path: Path, umask: None) -> None:
    def private(path: str) -> None:
        """As safetensors does it: a file of its own, for its owner alone, in the place of the given one."""
        descriptor = os.open(f"{path}x", os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(descriptor, b"new")
        os.close(descriptor)
        os.replace(f"{path}x", path)

    write_model(str(tmp_path / "model"), private)
    assert (_mode(tmp_path / "model"), (tmp_path / "model").read_bytes()) == ("0o640", b"new")


def test_a_file_that_was_there_keeps_its_permissions(tmp_path: Path, umask: None) -> None:
    (tmp_path / "model").touch(0o600)
    write_model(str(tmp_path / "model"), _write())
    assert (_mode(tmp_path / "model"), (tmp_path / "model").read_bytes()) == ("0o600", b"new")


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_is_followed(tmp_path: Path, exists: bool) -> None:
    (tmp_path / "folder").mkdir()
    if exists:
        (tmp_path / "folder" / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("folder/real")
    write_model(str(tmp_path / "link"), _write())
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder" / "real").read_bytes() == b"new"
    assert [entry.name for entry in (tmp_path / "folder").iterdir()] == ["real"]


def test_what_is_no_regular_file_is_refused_and_stays_what_it_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "null").symlink_to("/dev/null")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").touch()
    expected: dict[str | Path, str] = {
        "/dev/null": "it is a device, not a regular file",
        tmp_path / "null": "it is a device, not a regular file",
        tmp_path / "pipe": "it is a named pipe, not a regular file",
        tmp_path / "folder": "it is a folder, not a regular file",
        tmp_path / "loop": "it is a link that leads to itself, not a regular file",
        tmp_path / "file" / "model": "Not a directory",
    }
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(tmp_path / "socket"))
        expected[tmp_path / "socket"] = "it is a socket, not a regular file"
        for path, why in expected.items():
            with pytest.raises(CheckpointError) as refused:
                regular_file(path)
            assert str(refused.value) == (
                f"'{path}' cannot be saved: {why}.\n  Give the name of a file that can be written."
            )
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize("framework", ["arrays", "torch"])
@pytest.mark.parametrize("model", ["result", "mine"])
def test_a_worker_refuses_to_save_to_a_device(tmp_path: Path, framework: str, model: str) -> None:
    layer = torch.nn.Linear(2, 1)
    arrays = {"w": torch.zeros(2).numpy()}
    if framework == "arrays":
        worker = weft.join(arrays=arrays, optimizer=weft.SGD(lr=0.1))
    else:
        worker = weft.join(layer, torch.optim.SGD(layer.parameters(), lr=0.1))
    name = "model.0" if model == "mine" else "model"
    (tmp_path / name).symlink_to("/dev/null")
    with pytest.raises(CheckpointError, match="it is a device, not a regular file"):
        worker.save(str(tmp_path / "model"), model)
    (tmp_path / name).unlink()
    worker.save(str(tmp_path / "model"), model)
    umask = os.umask(0)
    os.umask(umask)
    assert _mode(tmp_path / name) == oct(0o666 & ~umask)
    assert load_file(tmp_path / name)
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_a_disk_that_is_full_leaves_the_file_as_it_was_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(b"old")

    def full(path: str) -> None:
        Path(path).write_bytes(b"half")
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    with pytest.raises(OSError, match="No space left on device") as found:
        write_model(str(tmp_path / "model"), full)
    assert found.value.errno == errno.ENOSPC
    assert [(entry.name, entry.read_bytes()) for entry in tmp_path.iterdir()] == [("model", b"old")]


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"cannot be saved: No such file or directory\."):
        write_model(str(tmp_path / "none" / "model"), _write())
    with pytest.raises(CheckpointError, match=r"cannot be saved: File name too long\."):
        write_model(str(tmp_path / ("x" * 256)), _write())
    write_model(str(tmp_path / ("x" * 255)), _write())


def test_other_errors_of_safetensors_are_not_hidden(tmp_path: Path) -> None:
    def wrong(path: str) -> None:
        raise SafetensorError("no such type of number")

    with pytest.raises(SafetensorError, match="no such type of number"):
        write_model(str(tmp_path / "model"), wrong)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_replaced(tmp_path: Path) -> None:
    (tmp_path / f".model.{os.getpid()}.part").write_bytes(b"half")
    write_model(str(tmp_path / "model"), _write())
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


def test_a_real_run_goes_on_when_a_model_does_not_fit_on_the_disk(tmp_path: Path) -> None:
    write(tmp_path, SCRIPT)
    (tmp_path / "model").write_bytes(b"old")
    command = [str(Path(sys.executable).with_name("weft")), "run", "train.py", "-n", "2", "--json", "out.json"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
    (row,) = json.loads((tmp_path / "out.json").read_text())
    (told,) = row["not_saved"]
    assert told.endswith(
        ": 'model' is NOT saved: File too large. Training goes on; a file that was there before is as it was."
    )
    assert told in run.stderr
    assert told in " ".join(run.stdout.split())
    assert row["samples"] == 16
    assert (tmp_path / "model").read_bytes() == b"old"
    assert {entry.name for entry in tmp_path.iterdir()} == {"train.py", "out.json", "model"}
