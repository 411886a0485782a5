"""Workers that torchrun or srun has started beside this one, before a host agent looks after them.

They are found by their parent, which is this process's own, and known by what the engine put into their environment.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from weft.core.errors import ConfigError
from weft.engines.hosts.launch_env import LaunchPlacement, placement
from weft.engines.real.child_processes import say
from weft.engines.real.stopped_processes import STOPPED_S, Stops, children_of, process_state

LOOK_S = 0.5
"""How often the system is asked for their states."""


def rank_in(run: LaunchPlacement, pid: int) -> int | None:
    """The rank of a process in this run, by the environment that it was started with; None if it is no part of it."""
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
    """Meanwhile, a thread ends workers beside this one that are stopped: their engine would wait for them for ever."""
    is_over = threading.Event()
    about = placed, os.getppid(), is_over
    threading.Thread(target=_watch, args=about, name="weft watch over other workers", daemon=True).start()
    try:
        yield
    finally:
        is_over.set()


def _watch(placed: LaunchPlacement, parent: int, is_over: threading.Event) -> None:
    stops = Stops[int]()
    while not is_over.wait(LOOK_S):
        states = {pid: process_state(pid) for pid in children_of(parent) if pid != os.getpid()}
        for pid, stopped_s in stops.see(states, time.monotonic()).items():
            rank = rank_in(placed, pid) if stopped_s > STOPPED_S else None
            if rank is not None:
                say(
                    f"weft: worker {rank} (pid {pid}) is stopped before it has joined: it is ended, and the run with "
                    "it.\n  Find out who stopped it."
                )
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
