"""Workers that are killed or stopped where training has not begun or is over: the run ends soon and names them."""

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from support.processes.launches import TRAIN
from support.processes.real import fork_from_here
from support.scripts.training_scripts import write

from weft.core.errors import NodeLost
from weft.engines.local.forked_workers import Process
from weft.engines.local.launcher import run_local
from weft.engines.real import timeouts
from weft.engines.real.job import RealJob

KILLED = "killed by signal 9 (SIGKILL)"
STOPPED = "its process is stopped"
AT_IMPORT = """
import os
from weft.core.seat import current

if current().rank == 1:
    os.kill(os.getpid(), NUMBER)
"""
AT_JOIN = """
from weft.core.seat import current

if current().rank == 1:
    threading.Timer(0.1, os.kill, (os.getpid(), NUMBER)).start()
else:
    threading.Event().wait()
"""
AT_END = """
worker.step({"w": w}, samples=1)
if worker.rank == 1:
    threading.Timer(0.2, os.kill, (os.getpid(), NUMBER)).start()
else:
    threading.Event().wait()
"""
HEAD, JOIN = TRAIN.split("w = np", 1)


def error_of(folder: Path, script: str, fork: Callable[..., list[Process]] = fork_from_here) -> str:
    with pytest.raises(NodeLost) as raised:
        run_local(RealJob(script=write(folder, script), num_workers=2), fork=fork)
    return str(raised.value)


@pytest.mark.parametrize(
    ("script", "number", "moment", "said"),
    [
        (AT_IMPORT + TRAIN, signal.SIGKILL, "before it had joined", KILLED),
        (HEAD + AT_JOIN + "w = np" + JOIN, signal.SIGKILL, "after it had joined", KILLED),
        (TRAIN + AT_END, signal.SIGKILL, "after its script had ended", KILLED),
        (AT_IMPORT + TRAIN, signal.SIGSTOP, "answering before it had joined", STOPPED),
        (HEAD + AT_JOIN + "w = np" + JOIN, signal.SIGSTOP, "answering after it had joined", STOPPED),
        (TRAIN + AT_END, signal.SIGSTOP, "answering after its script had ended", STOPPED),
    ],
    ids=[f"{what} {when}" for what in ("killed", "stopped") for when in ("at import", "at join", "at its end")],
)
def test_a_worker_that_is_killed_or_stopped_is_named_with_its_moment(
    script: str, number: signal.Signals, moment: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeouts, "PROCESS_STOPPED_S", 0.2)
    told = error_of(tmp_path, script.replace("NUMBER", str(int(number))))
    assert told.startswith("worker 1 (host ")
    assert f") stopped {moment}: {said}." in told


def test_a_worker_that_is_dead_before_it_is_told_its_part_is_named(tmp_path: Path) -> None:
    def fork(num_workers: int, shared: Sequence[int], check: Callable[[], None]) -> list[Process]:
        born = fork_from_here(num_workers, shared, check)
        os.kill(born[1].pid, signal.SIGKILL)
        os.waitid(os.P_PID, born[1].pid, os.WEXITED | os.WNOWAIT)
        return born

    told = error_of(tmp_path, TRAIN, fork)
    assert told.startswith("worker 1 (host ")
    assert f") stopped before it had joined: {KILLED}." in told
