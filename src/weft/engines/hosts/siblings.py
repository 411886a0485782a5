"""Watches sibling workers, started by the same torchrun or srun, until a host agent takes over.

Siblings are the children of this process's parent; their ranks are read from /proc/PID/environ. One daemon thread polls
their states; it shares nothing with the script's thread but a threading.Event that stops the thread.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from weft.core.errors import ConfigError
from weft.engines.hosts import timeouts
from weft.engines.hosts.launch_env import LaunchPlacement, placement
from weft.engines.real import timeouts as real_timeouts
from weft.engines.real.child_processes import say
from weft.engines.real.stopped_processes import Stops, children_of, process_state


def rank_in(run: LaunchPlacement, pid: int) -> int | None:
    """The rank of process `pid` in `run`, by its initial environment (/proc/PID/environ); None if it is of another
    run."""
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
        pairs = [entry.partition("=") for entry in raw.decode(errors="replace").split("\0")]
        found = placement({name: value for name, _, value in pairs})
    except (OSError, ConfigError):
        return None
    if found is None or (found.host, found.port, found.run) != (run.host, run.port, run.run):
        return None
    return found.rank


@contextmanager
def watched_siblings(placed: LaunchPlacement) -> Iterator[None]:
    """While the context is open, a thread kills siblings that are stopped (SIGSTOP): all others would wait for them."""
    is_over = threading.Event()
    threading.Thread(
        target=_watch, args=(placed, os.getppid(), is_over), name="weft watch over other workers", daemon=True
    ).start()
    try:
        yield
    finally:
        is_over.set()


def _watch(placed: LaunchPlacement, parent: int, is_over: threading.Event) -> None:
    stops = Stops[int]()
    while not is_over.wait(timeouts.SIBLINGS_LOOK_S):
        states = {pid: process_state(pid) for pid in children_of(parent) if pid != os.getpid()}
        for pid, stopped_s in stops.see(states, time.monotonic()).items():
            rank = rank_in(placed, pid) if stopped_s > real_timeouts.PROCESS_STOPPED_S else None
            if rank is not None:
                say(
                    f"weft: worker {rank} (pid {pid}) is stopped before it has joined: it is ended, and the run with "
                    "it.\n  Find out who stopped it."
                )
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
