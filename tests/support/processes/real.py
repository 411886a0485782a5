"""Real worker processes for tests: forked from the test's own process, which has imported everything already."""

import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from weft.engines.local import worker_main
from weft.engines.local.forked_workers import Process
from weft.engines.local.launcher import run_local
from weft.engines.real.job import RealJob
from weft.engines.real.observer import Observer
from weft.engines.real.outcome import RealOutcome
from weft.observe.records.status import Status
from weft.parent_death import die_with_parent


def fork_from_here(num_workers: int, shared: Sequence[int], check: Callable[[], None]) -> list[Process]:
    """What a fork server does, without one that would import torch for each test."""
    del check
    launcher, processes = os.getpid(), []
    for _ in range(num_workers):
        mine, theirs = socket.socketpair()
        output, error = os.pipe(), os.pipe()
        pid = os.fork()
        if not pid:
            try:
                keep_garbage()
                _become_worker(theirs, shared, output[1], error[1], launcher)
            finally:
                os._exit(1)
        theirs.close()
        os.close(output[1])
        os.close(error[1])
        processes.append(Process(pid, mine, output[0], error[0]))
    return processes


@contextmanager
def fork_server_here(*job_and_codecs: object) -> Iterator[SimpleNamespace]:
    """In place of weft.engines.local.launcher.fork_server_of, where a test is not about fork servers."""
    del job_and_codecs
    yield SimpleNamespace(fork=fork_from_here)


def keep_garbage() -> None:
    """In a fork: garbage of the test's own process stays; a store of torch's would wait for threads it lacks."""
    gc.freeze()


def _become_worker(channel: socket.socket, shared: Sequence[int], output: int, error: int, launcher: int) -> None:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the launcher's handler, which is in this process, too
    die_with_parent(launcher)
    os.dup2(output, 1)
    os.dup2(error, 2)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    code = 0
    try:
        worker_main.main(channel.detach(), shared)
    except SystemExit as stop:
        code = int(stop.code or 0)
    sys.stdout.flush()
    os._exit(code)


class Heard:
    """What a run said while it went on."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, str, bool]] = []
        self.reports: list[tuple[int, dict[str, float]]] = []
        self.told: list[str] = []
        self.statuses: list[Status] = []

    def observer(self) -> Observer:
        return Observer(
            on_line=lambda rank, text, is_error: self.lines.append((rank, text, is_error)),
            on_report=lambda epoch, numbers: self.reports.append((epoch, numbers)),
            on_tell=self.told.append,
            on_status=self.statuses.append,
        )


def real(
    script: Path,
    num_workers: int,
    strategy: str | None = None,
    *arguments: object,
    heard: Heard | None = None,
    **options: Any,
) -> RealOutcome:
    """Run a script on real workers."""
    job = RealJob(
        script=script, arguments=tuple(map(str, arguments)), num_workers=num_workers, strategy=strategy, **options
    )
    return run_local(job, (heard or Heard()).observer(), fork_from_here)
