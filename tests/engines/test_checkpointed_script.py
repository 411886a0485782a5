"""`WEFT_CHECKPOINT=runs/a python train.py`: goes on where it was, and leaves in order when it is told to."""

import atexit
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch._dynamo  # noqa: F401 - here, once: every fork would take seconds for it
from support.processes.commands import Ended
from support.processes.real import keep_garbage

from weft.checkpoints.folder import find_newest
from weft.core.errors import ConfigError
from weft.core.seat import find_seat, join_by, sit
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


def run(folder: Path, number: int = 0) -> Ended:
    """`python train.py`, which sends itself a signal."""
    command = [sys.executable, "train.py"]
    env = {**os.environ, **environment(folder, number)}
    ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False, cwd=folder)
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def environment(folder: Path, number: int) -> dict[str, str]:
    (folder / "train.py").write_text(SCRIPT)
    return {"WEFT_CHECKPOINT": str(folder / "runs"), "SIGNAL": str(number or "")}


def run_in_fork(folder: Path, number: int = 0) -> Ended:
    """The same in a fork of the test's own process, which has imported torch already."""
    env = environment(folder, number)
    with open(folder / "out", "w") as out, open(folder / "err", "w") as err:
        pid = os.fork()
        if not pid:
            try:
                _become_script(folder, env, out.fileno(), err.fileno())
            finally:
                os._exit(1)
    _, status = os.waitpid(pid, 0)
    return Ended(os.waitstatus_to_exitcode(status), (folder / "out").read_text(), (folder / "err").read_text())


def _become_script(folder: Path, env: dict[str, str], out: int, err: int) -> None:
    keep_garbage()
    os.dup2(out, 1)
    os.dup2(err, 2)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    atexit._clear()
    os.chdir(folder)
    os.environ.update(env)
    sys.argv = ["train.py"]
    sit(None)
    join_by(join_hook.find_seat)  # a process is asked once, and the test's own has been
    code = 0
    try:
        runpy.run_path("train.py", run_name="__main__")
    except SystemExit as stop:
        code = int(stop.code or 0)
    except BaseException:
        code = 1
        sys.excepthook(*sys.exc_info())
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@pytest.mark.processes
@pytest.mark.parametrize(("number", "run"), [(signal.SIGTERM, run), (signal.SIGINT, run_in_fork)])
def test_a_signal_ends_the_step_and_the_same_command_goes_on_and_then_has_nothing_to_do(
    number: int, run: Callable[..., Ended], tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    whole = run_in_fork(tmp_path / "other")
    stopped = run(tmp_path, number)
    assert (stopped.code, stopped.out) == (0, ""), stopped.err
    assert stopped.err == (
        "weft: stopping after this step, with a checkpoint; once more to stop now\n"
        f"weft: stopped at step 14; the checkpoint is in '{tmp_path / 'runs'}', and the same command goes on\n"
    )
    manifest = find_newest(tmp_path / "runs").manifest
    assert manifest is not None
    assert (manifest.place, manifest.is_finished) == ("step 14, 1 of 3 epochs and 4 batches", False)
    resumed = run(tmp_path)
    assert (resumed.code, resumed.out) == (0, whole.out)
    assert "goes on from the checkpoint of step 14" in resumed.err
    again = run(tmp_path)
    assert (again.code, again.out) == (0, "")
    assert "has finished (step 30, 3 of 3 epochs); there is nothing left to do" in again.err


def test_without_the_variable_there_is_no_such_seat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEFT_CHECKPOINT", raising=False)
    assert seat_with_checkpoints() is None
    assert callable(find_seat)


def test_under_another_launcher_checkpoints_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CHECKPOINT", "runs/a")
    monkeypatch.setattr(join_hook, "placement", lambda environment: object())
    with pytest.raises(ConfigError, match="WEFT_CHECKPOINT is for scripts that python or weft run starts"):
        join_hook.find_seat()
