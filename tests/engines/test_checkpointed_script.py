"""`WEFT_CHECKPOINT=runs/a python train.py`: goes on where it was, and leaves in order when it is told to."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from weft.checkpoints.folder import find_newest
from weft.core.errors import ConfigError
from weft.core.seat import find_seat
from weft.engines.checkpointed_script import seat_with_checkpoints
from weft.engines.hosts import join_hook

SCRIPT = """
import os, signal, sys
import torch, weft

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
worker = weft.join(model, optimizer)
data = torch.utils.data.DataLoader(torch.randn(20, 4), batch_size=2, shuffle=True)
for epoch in worker.epochs(3):
    for x in worker.share(data):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        if os.environ.get("SIGNAL") and worker.steps == 14:
            os.kill(os.getpid(), int(os.environ["SIGNAL"]))
print([value.item().hex() for value in model.weight[0]], flush=True)
"""


def run(folder: Path, number: int = 0) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(SCRIPT)
    env = {**os.environ, "WEFT_CHECKPOINT": str(folder / "runs")}
    if number:
        env["SIGNAL"] = str(number)
    command = [sys.executable, str(folder / "train.py")]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, cwd=folder)


@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_step_and_the_same_command_goes_on_and_then_has_nothing_to_do(
    number: int, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    whole = run(tmp_path / "other")
    stopped = run(tmp_path, number)
    assert (stopped.returncode, stopped.stdout) == (0, "")
    assert stopped.stderr == "weft: stopping after this step, with a checkpoint; once more to stop now\n"
    manifest = find_newest(tmp_path / "runs").manifest
    assert manifest is not None
    assert (manifest.place, manifest.is_finished) == ("step 14, epoch 1 of 3 + 4 batches", False)
    resumed = run(tmp_path)
    assert (resumed.returncode, resumed.stdout) == (0, whole.stdout)
    assert "goes on from the checkpoint of step 14" in resumed.stderr
    again = run(tmp_path)
    assert (again.returncode, again.stdout) == (0, "")
    assert "has finished (step 30, epoch 3 of 3); there is nothing left to do" in again.stderr


def test_without_the_variable_there_is_no_such_seat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEFT_CHECKPOINT", raising=False)
    assert seat_with_checkpoints() is None
    assert callable(find_seat)


def test_under_another_launcher_checkpoints_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CHECKPOINT", "runs/a")
    monkeypatch.setattr(join_hook, "placement", lambda environment: object())
    with pytest.raises(ConfigError, match="WEFT_CHECKPOINT is for scripts that python or weft run starts"):
        join_hook.find_seat()
