"""Workers beside this one that are stopped before a host agent looks after them."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from weft.engines.hosts import timeouts
from weft.engines.hosts.launch_env import LaunchPlacement
from weft.engines.hosts.siblings import rank_in, watched_siblings
from weft.engines.real import timeouts as real_timeouts

ENVIRON = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "mill", "MASTER_PORT": "4711"}
PLACED = LaunchPlacement(0, 2, "mill", 4711, "run/0", True)


@contextmanager
def stopped(**environ: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A process with this environment, which is stopped as soon as it has it."""
    about = [sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"]
    with subprocess.Popen(about, env={**ENVIRON, **environ}) as process:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        try:
            yield process
        finally:
            process.kill()


def test_a_process_has_a_rank_if_the_engine_put_it_into_the_same_run() -> None:
    with stopped() as one, stopped(MASTER_PORT="4712") as other, stopped(RANK="many") as mad:
        assert rank_in(PLACED, one.pid) == 1
        assert rank_in(PLACED, other.pid) is None
        assert rank_in(PLACED, mad.pid) is None
    assert rank_in(PLACED, 2**30) is None


def test_a_worker_that_is_stopped_before_it_joins_is_named_and_ended_and_others_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(real_timeouts, "PROCESS_STOPPED_S", 0.1)
    monkeypatch.setattr(timeouts, "SIBLINGS_LOOK_S", 0.02)
    with stopped() as one, stopped(MASTER_PORT="4712") as other:
        monkeypatch.setattr(os, "getppid", os.getpid)  # they are this process's own children here
        with watched_siblings(PLACED):
            assert one.wait(20) == -signal.SIGKILL
        assert other.poll() is None
    told = f"weft: worker 1 (pid {one.pid}) is stopped before it has joined: it is ended, and the run with it.\n"
    assert f"{told}  Find out who stopped it.\n" in capfd.readouterr().err
