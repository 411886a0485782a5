"""Workers are born in a fork server, and are children of the launcher's own."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.processes.launches import wait_until

from weft.core.errors import NodeLost
from weft.engines.local import forked_workers
from weft.engines.local.forked_workers import ForkServer, LocalWorker, Process
from weft.engines.real import timeouts
from weft.engines.real.stopped_processes import children_of, process_state


def test_workers_are_adopted_hear_their_channel_and_are_waited_for(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('hello')\n")
    with ForkServer(script, os.environ) as fork_server:
        for _ in range(2):  # one fork server serves several runs
            first, second = fork_server.fork(2, [], lambda: None)
            assert first.pid != second.pid
            stat = Path(f"/proc/{first.pid}/stat").read_text().rpartition(")")[2].split()
            assert int(stat[1]) == os.getpid()
            first.kill()
            first.wait()
            assert first.exit_code == -9
            second.channel.close()  # nobody tells it what to do, so it ends
            second.wait()
            assert second.exit_code not in (0, None)
            for process in (first, second):
                process.channel.close()
                os.close(process.output)
                os.close(process.error)
    assert process_state(fork_server._process.pid) == ""


def test_a_nursery_that_ends_is_an_error_that_says_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    nowhere = {**os.environ, "PYTHONHOME": str(tmp_path)}
    with ForkServer(script, nowhere) as fork_server, pytest.raises(NodeLost) as raised:
        fork_server.fork(1, [], lambda: None)
    assert str(raised.value) == (
        f"worker 0 could not be started: the fork server (pid {fork_server._process.pid}): its process "
        "ended with code 1.\n  If nobody killed it, what it printed may say why."
    )
    assert "Fatal Python error" in capfd.readouterr().err


def test_waiting_for_workers_can_be_interrupted(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("")

    def interrupt() -> None:
        raise KeyboardInterrupt

    with ForkServer(script, os.environ) as fork_server, pytest.raises(KeyboardInterrupt):
        fork_server.fork(1, [], interrupt)


FORK = """
import os, sys
real_fork = os.fork
num_forks = 0

def fork():
    global num_forks
    num_forks += 1
    {what}
    return real_fork()

os.fork = fork
"""
"""Of each worker, the fork server forks first, and then its child."""


def fork_server_that(folder: Path, what: str) -> ForkServer:
    """One in which this happens before a fork, of which `num_forks` tells the number in that process."""
    (folder / "sitecustomize.py").write_text(FORK.format(what=what))
    script = folder / "train.py"
    script.write_text("")
    return ForkServer(script, {**os.environ, "PYTHONPATH": str(folder)})


NO_MORE = "raise BlockingIOError(11, 'Resource temporarily unavailable')"


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (f"if num_forks == 2 and os.getppid() == {os.getpid()}: {NO_MORE}", "the kernel refused to fork it"),
        (f"if num_forks == 3 and os.getppid() != {os.getpid()}: {NO_MORE}", "the kernel refused to fork it"),
        (
            f"if num_forks == 3 and os.getppid() != {os.getpid()}: os.kill(os.getpid(), 9)",
            r"the process that forks it \(pid \d+\): killed by signal 9 \(SIGKILL\)",
        ),
    ],
    ids=["refused to the fork server", "refused to its child", "killed while it is born"],
)
def test_a_worker_that_never_comes_to_life_is_named_and_those_that_were_born_end(
    what: str, said: str, tmp_path: Path
) -> None:
    before = set(children_of(os.getpid()))
    with fork_server_that(tmp_path, what) as fork_server:
        with pytest.raises(NodeLost) as raised:
            fork_server.fork(3, [], lambda: None)
        assert set(children_of(os.getpid())) - before == {fork_server._process.pid}
    first, advice = str(raised.value).splitlines()
    assert re.fullmatch(rf"worker 1 could not be started: {said}.*\.", first), first
    assert "use fewer workers (-n), or raise the limit: pids.max" in advice


def test_a_worker_that_is_killed_before_it_can_say_anything_is_known_by_its_process(tmp_path: Path) -> None:
    what = "os.setsid = lambda: os.kill(os.getpid(), 9)  # the first that a worker does"
    with fork_server_that(tmp_path, what) as fork_server:
        for process in fork_server.fork(2, [], lambda: None):
            process.wait()
            assert process.exit_code == -signal.SIGKILL
            process.channel.close()
            os.close(process.output)
            os.close(process.error)


@pytest.mark.parametrize(
    ("what", "who"),
    [
        (f"if os.getppid() == {os.getpid()}: os.kill(os.getpid(), 19)", "the fork server"),
        (f"if os.getppid() != {os.getpid()}: os.kill(os.getpid(), 19)", "a process that the fork server has forked"),
        ("pid = real_fork(); pid or os.kill(os.getpid(), 19); return pid", "a process that the fork server has forked"),
    ],
    ids=["the fork server", "its child", "its child before it dies with the fork server"],
)
def test_whoever_is_stopped_while_workers_are_born_is_named_and_nothing_is_left(
    what: str, who: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeouts, "PROCESS_STOPPED_S", 0.2)
    monkeypatch.setattr(forked_workers, "LOOK_S", 0.1)
    with fork_server_that(tmp_path, what) as fork_server, pytest.raises(NodeLost) as raised:
        fork_server.fork(1, [], lambda: None)
    match = re.fullmatch(
        rf"{who} \(pid (\d+)\) is stopped, and worker 0 is not forked yet\.\n"
        r"  Let it go on with kill -CONT \1, or find out who stopped it\.",
        str(raised.value),
    )
    assert match is not None
    wait_until(lambda: process_state(int(match[1])) in ("", "Z"), "its end", lambda: None)


LAUNCHER = """
import os, sys
from pathlib import Path
from weft.engines.local.forked_workers import ForkServer, LocalWorker, Process

with ForkServer(Path(sys.argv[1]), os.environ) as fork_server:
    fork_server.fork(1, [], lambda: None)
"""


def test_a_worker_whose_launcher_is_killed_before_it_is_adopted_ends(tmp_path: Path) -> None:
    """The process between is held up until the launcher is gone: what is then born has another parent."""
    told = tmp_path / "worker"
    hold = f"""
    if num_forks == 2:  # between: it does not tell the fork server, and outlives it
        pid = real_fork()
        if pid:
            import ctypes, time
            ctypes.CDLL(None).prctl(1, 0)
            open({str(told)!r} + ".new", "w").write(str(pid))
            os.rename({str(told)!r} + ".new", {str(told)!r})
            server = os.getppid()
            while os.getppid() == server: time.sleep(0.01)
            os._exit(0)
        return pid
    """
    (tmp_path / "sitecustomize.py").write_text(FORK.format(what=hold.strip()))
    (tmp_path / "train.py").write_text("")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    launcher = subprocess.Popen([sys.executable, "-c", LAUNCHER, str(tmp_path / "train.py")], env=environment)
    wait_until(told.exists, "a birth", lambda: None)
    worker = int(told.read_text())
    assert process_state(worker) in ("S", "R")
    launcher.kill()
    launcher.wait()
    wait_until(lambda: process_state(worker) in ("", "Z"), "the worker's end", lambda: None, 2.0)


def test_workers_of_an_order_that_was_given_up_are_not_taken_for_those_of_the_next(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("")

    def interrupt() -> None:
        raise KeyboardInterrupt

    before = set(children_of(os.getpid()))
    with ForkServer(script, os.environ) as fork_server:
        with pytest.raises(KeyboardInterrupt):
            fork_server.fork(2, [], interrupt)
        for process in fork_server.fork(2, [], lambda: None):
            process.kill()
            process.wait()
            assert process.exit_code == -signal.SIGKILL
            process.channel.close()
            os.close(process.output)
            os.close(process.error)
        assert set(children_of(os.getpid())) - before == {fork_server._process.pid}


def test_a_system_that_starts_no_process_at_all_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **more: Any) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    (tmp_path / "train.py").touch()
    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(
        NodeLost, match=r"no process for their fork server \(Resource temporarily unavailable\)"
    ) as raised:
        ForkServer(tmp_path / "train.py", os.environ)
    assert str(raised.value).endswith("or ulimit -u.")


def test_a_worker_has_the_id_of_its_process_and_nothing_is_known_of_its_end() -> None:
    mine, theirs = socket.socketpair()
    pid = os.fork()
    if not pid:
        os._exit(3)
    process = Process(pid, mine, -1, -1)
    worker = LocalWorker(2, process)
    assert (worker.rank, worker.pid, worker.host, worker.exit_code) == (2, pid, socket.gethostname(), None)
    assert (worker.is_alive, worker.has_finished, worker.status) == (True, False, None)
    process.wait()
    worker.channel.close()
    theirs.close()
