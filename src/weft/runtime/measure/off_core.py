"""Measures how long a thread was off a core, by /proc/.../schedstat: ready to run (starving), or waiting."""

import os
import time
import weakref
from pathlib import Path

SCHEDSTAT = Path("/proc/thread-self/schedstat")
"""Per thread: nanoseconds on a core, nanoseconds ready but without a core, number of times it was scheduled."""
THREADS = Path("/proc/self/task")
"""The directory with a schedstat of each thread of this process."""


class Starving:
    """How long a thread was ready to run but had no core. Keeps its schedstat open, because it is read often."""

    def __init__(self, thread: int) -> None:
        try:
            self._account = os.open(THREADS / str(thread) / "schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # the kernel has no schedstat
            self._account = -1
            return
        closing = weakref.finalize(self, os.close, self._account)
        closing.atexit = False  # daemon threads may still read it at exit; the end of the process closes it

    def seconds(self) -> float:
        """Seconds ready without a core so far; 0 without schedstat."""
        return self._told(1) / 1e9

    def num_runs(self) -> int:
        """How many times the thread was scheduled so far; 0 without schedstat."""
        return self._told(2)

    def _told(self, field: int) -> int:
        return int(os.pread(self._account, 80, 0).split()[field]) if self._account >= 0 else 0


class OffCore:
    """How long the calling thread neither ran nor was ready to run: the time it waited inside a library."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Measure from now on."""
        self._since, self._busy_s = time.perf_counter(), self._busy()

    def seconds(self) -> float:
        """Seconds of waiting since the last `restart`."""
        return max(0.0, time.perf_counter() - self._since - (self._busy() - self._busy_s))

    @staticmethod
    def _busy() -> float:
        """Seconds on a core or ready for one, so far; without schedstat, CPU time only."""
        try:
            ran_ns, ready_ns, _ = SCHEDSTAT.read_bytes().split()
        except OSError:
            return time.thread_time()
        return (int(ran_ns) + int(ready_ns)) / 1e9
