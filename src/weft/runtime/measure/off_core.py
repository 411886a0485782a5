"""How long a thread neither ran nor was ready to run: the time that a plain loop spends waiting inside a library."""

import os
import time
import weakref
from pathlib import Path

SCHEDSTAT = Path("/proc/thread-self/schedstat")
"""Linux's account of a thread: nanoseconds on a core, and ready but without one, and how many times it ran."""
THREADS = Path("/proc/self/task")
"""Where the accounts of all threads of this process are."""


class Starving:
    """How long a thread of this process was ready to run and had no core; keeps its account open: it is read often."""

    def __init__(self, thread: int) -> None:
        try:
            self._account = os.open(THREADS / str(thread) / "schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # the system keeps none
            self._account = -1
            return
        closing = weakref.finalize(self, os.close, self._account)
        closing.atexit = False  # other threads read it to the very end of the process, which closes it

    def seconds(self) -> float:
        """So far; 0 where the system does not tell."""
        return self._told(1) / 1e9

    def num_runs(self) -> int:
        """How many times it was given a core so far; 0 where the system does not tell."""
        return self._told(2)

    def _told(self, field: int) -> int:
        return int(os.pread(self._account, 80, 0).split()[field]) if self._account >= 0 else 0


class OffCore:
    """Measures one thread, the one that calls."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Measure from now on."""
        self._since, self._busy_s = time.perf_counter(), self._busy()

    def seconds(self) -> float:
        """Since the last restart."""
        return max(0.0, time.perf_counter() - self._since - (self._busy() - self._busy_s))

    @staticmethod
    def _busy() -> float:
        """Seconds on a core and ready for one, so far; where the system does not tell the latter, the former."""
        try:
            ran_ns, ready_ns, _ = SCHEDSTAT.read_bytes().split()
        except OSError:
            return time.thread_time()
        return (int(ran_ns) + int(ready_ns)) / 1e9
