"""Workers that another engine has started, without one: processes forked from the test's own, which meet at a store.

They may be on different hosts as far as they know: what they find out of their hosts is made up.
"""

import atexit
import os
import runpy
import secrets
import select
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import torch.distributed as dist

from support.processes.launches import STEP_S, lives, wait_until
from support.processes.real import keep_garbage
from weft.adapters.torch.rendezvous import TorchRendezvous
from weft.core.seat import join_by, sit
from weft.engines.hosts import bootstrap, worker_info
from weft.engines.hosts.launch_env import LaunchPlacement

LOOPBACK = "127.0.0.1"
WRITTEN = "written"
HELPERS_S_MAX = 5.0
PATIENCE_S = 120.0
"""Several processes for each worker are at work, on few cores."""


class LaunchedWorkers:
    """The processes of one run, by rank. What they, their host agents and the controller write is in one file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = secrets.token_hex(8)
        self.pids: list[int] = []
        self.codes: dict[int, int] = {}
        self.ended_s = 0.0
        """When the last worker had."""

    @property
    def text(self) -> str:
        return (self.folder / WRITTEN).read_text()

    def until(self, text: str, times: int = 1) -> None:
        """Wait until this was written so many times."""
        wait_until(lambda: self.text.count(text) >= times, f"'{text}'", self._look, PATIENCE_S)

    def end(self, *, is_swept: bool = False) -> list[int]:
        """Wait until all have ended; their exit codes. Slurm sweeps: it kills what they leave behind at once."""
        wait_until(lambda: len(self.codes) == len(self.pids), "the end of all", self._look, PATIENCE_S)
        self.ended_s = time.monotonic()
        if is_swept:
            self.tell_helpers(signal.SIGKILL)
        assert not self.left_behind()
        return [self.codes[rank] for rank in range(len(self.pids))]

    def kill(self, rank: int) -> None:
        os.kill(self.pids[rank], signal.SIGKILL)

    def tell_helpers(self, number: int) -> None:
        """Send the host agents and the controller a signal."""
        for pid in self.helpers():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def left_behind(self) -> set[int]:
        """The host agents and the controller, if they still live when they have had time for their last words."""
        deadline_s = time.monotonic() + HELPERS_S_MAX
        while (found := self.helpers()) and time.monotonic() < deadline_s:
            self._look()
        return found

    def helpers(self) -> set[int]:
        """The host agents and the controller: processes that were started with this run's mark in their environment."""
        pids = [int(pid) for pid in os.listdir("/proc") if pid.isdigit()]
        return {pid for pid in pids if self._is_marked(pid) and lives(pid)}

    def _is_marked(self, pid: int) -> bool:
        try:
            return self.mark.encode() in Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False

    def _look(self) -> None:
        for rank, pid in enumerate(self.pids):
            if rank not in self.codes:
                found, status = os.waitpid(pid, os.WNOHANG)
                if found:
                    self.codes[rank] = os.waitstatus_to_exitcode(status)
        select.select([], [], [], STEP_S)


@contextmanager
def launched(script: Path, hosts: list[str], environ: Mapping[str, str] | None = None) -> Iterator[LaunchedWorkers]:
    """A worker for each name of a host; afterwards nothing of them is left, whatever the test found.

    `environ` is added to the environment; a key such as '1:RANK' is for worker 1 alone.
    """
    run = LaunchedWorkers(script.parent)
    (run.folder / WRITTEN).touch()
    store, port = _start_store()
    given = {"CREW_OF_TEST": run.mark, **(environ or {})}
    try:
        for rank in range(len(hosts)):
            pid = os.fork()
            if not pid:
                try:
                    placed = LaunchPlacement(rank, len(hosts), LOOPBACK, port, "run", False)
                    _become_worker(run, script, placed, hosts, given)
                finally:
                    os._exit(1)
            run.pids.append(pid)
        yield run
    finally:
        os.kill(store, signal.SIGKILL)
        os.waitpid(store, 0)
        for pid in run.helpers() | {pid for rank, pid in enumerate(run.pids) if rank not in run.codes}:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for rank, pid in enumerate(run.pids):
            if rank not in run.codes:
                os.waitpid(pid, 0)


def _become_worker(
    run: LaunchedWorkers, script: Path, placed: LaunchPlacement, hosts: list[str], given: Mapping[str, str]
) -> None:
    """What an engine's process does: runs the script as if it were the only thing that this process ever did."""
    keep_garbage()
    with open(run.folder / WRITTEN, "a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    atexit._clear()
    os.chdir(run.folder)
    for key, value in given.items():
        rank, colon, name = key.partition(":")
        if not colon or rank == str(placed.rank):
            os.environ[name if colon else key] = value
    worker_info.home = lambda: f"home of {hosts[placed.rank]}"
    bootstrap.check_addresses = lambda infos: None
    sys.argv = [str(script)]
    sit(None)
    join_by(lambda: bootstrap.join_run(placed, TorchRendezvous.at(placed.host, placed.port, run.mark), os.environ))
    code = 0
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        code = 1
        sys.excepthook(*sys.exc_info())
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _start_store() -> tuple[int, int]:
    """A process that has torch's store, and its port. It is apart: who is forked beside a store's threads may hang."""
    readable, writable = os.pipe()
    pid = os.fork()
    if not pid:
        store = dist.TCPStore(LOOPBACK, 0, is_master=True, wait_for_workers=False)
        os.write(writable, str(store.port).encode())
        while True:
            signal.pause()
    port = int(os.read(readable, 10))
    os.close(readable)
    os.close(writable)
    return pid, port
