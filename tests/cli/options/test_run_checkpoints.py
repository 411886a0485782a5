"""weft run with checkpoints: bit-equal after a kill, in order after a signal, and refused where it would not be."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch._dynamo  # noqa: F401 - here, once: every fork would take seconds for it
from support.processes.commands import assert_refused, weft_command
from support.processes.real import fork_server_here

from weft.checkpoints.folder import find_newest, steps_in
from weft.cli.options import run_on

SCRIPT = """
import os, torch, weft

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
worker = weft.join(model, optimizer)
data = torch.utils.data.DataLoader(torch.randn(20, 4), batch_size=2, shuffle=True)
for epoch in worker.epochs(3000 if os.path.exists("stop") else 3):
    for x in worker.share(data):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        if os.path.exists("kill") and worker.steps == 14:
            os.remove("kill")
            os.kill(os.getpid(), 9)
        if os.path.exists("stop") and worker.steps == 14:
            print("here", flush=True)
            while os.path.exists("stop"):
                pass
worker.save("model.safetensors")
"""
CHECKPOINTS = ("--checkpoint", "runs", "--checkpoint-every", "4steps")


@pytest.fixture(autouse=True)
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_on, "fork_server_of", fork_server_here)
    (tmp_path / "train.py").write_text(SCRIPT)


@pytest.mark.processes
def test_a_run_that_was_killed_goes_on_and_ends_bit_equal(tmp_path: Path) -> None:
    model = tmp_path / "model.safetensors"
    assert weft_command("run", "train.py", "-n", 1).code == 0
    whole = model.read_bytes()
    model.unlink()
    (tmp_path / "kill").touch()
    assert weft_command("run", "train.py", "-n", 1, *CHECKPOINTS).code == 1
    assert steps_in(tmp_path / "runs") == [12, 8, 4]
    resumed = weft_command("run", "train.py", "-n", 1, *CHECKPOINTS)
    assert resumed.code == 0
    assert "goes on from the checkpoint of step 12, 1 of 3 epochs and 2 batches" in resumed.err + resumed.out
    assert model.read_bytes() == whole
    again = weft_command("run", "train.py", "-n", 1, *CHECKPOINTS)
    assert (again.code, again.out) == (0, "")
    assert "there is nothing left to do" in again.err


@pytest.mark.processes
def test_a_signal_ends_the_step_and_writes_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "stop").touch()
    command = [sys.executable, "-m", "weft", "run", "train.py", "-n", "1", *CHECKPOINTS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        heard = ""
        for line in process.stdout:
            heard += line
            if "here" in line:
                os.kill(process.pid, signal.SIGTERM)
            if "stopping after this step" in line:
                (tmp_path / "stop").unlink()
        assert process.wait(20) == 0
    manifest = find_newest(tmp_path / "runs").manifest
    assert manifest is not None
    assert not manifest.is_finished
    assert 14 <= manifest.step < 30000
    assert not (tmp_path / "model.safetensors").exists()
    assert f"stopped at step {manifest.step}; the checkpoint is in" in heard


def test_runs_whose_checkpoints_could_not_be_restored_exactly_are_refused(tmp_path: Path) -> None:
    for arguments, because in [
        (
            ("-n", 2, "--share", "stealing"),
            "--checkpoint does not go with --share stealing yet.\n  Leave out one of them.",
        ),
        (
            ("-n", 1, "--strategy", "allreduce", "--strategy", "gossip"),
            "a folder of checkpoints is for one run, but these are 2.\n  Name one strategy, or leave it out.",
        ),
    ]:
        assert_refused("run", "train.py", *arguments, *CHECKPOINTS, because=because)
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_cannot_be_written_is_told_before_the_run_starts(tmp_path: Path) -> None:
    (tmp_path / "runs").touch()
    assert_refused(
        *("run", "train.py", "-n", 1, *CHECKPOINTS),
        because=f"no checkpoint can be written into '{tmp_path / 'runs'}': File exists.\n  Choose another folder.",
    )


@pytest.mark.processes
def test_a_run_that_failed_after_its_last_epoch_runs_what_follows_the_loop(tmp_path: Path) -> None:
    text = (tmp_path / "train.py").read_text()
    (tmp_path / "train.py").write_text(text.replace("worker.save(", "os.stat('ready'); worker.save("))
    assert weft_command("run", "train.py", "-n", 1, *CHECKPOINTS).code == 1
    assert steps_in(tmp_path / "runs")[0] == 30
    (tmp_path / "ready").touch()
    assert weft_command("run", "train.py", "-n", 1, *CHECKPOINTS).code == 0
    assert (tmp_path / "model.safetensors").exists()
