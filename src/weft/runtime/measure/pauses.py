"""Finds pauses of the whole process: it was stopped (SIGSTOP) and continued, or its machine was suspended.

The heartbeat thread ticks. A tick that comes much too late means that no thread of the process ran. What else makes
ticks late is subtracted: CPU time that the process used; time in which its threads were ready but had no core
(schedstat); and time in which native code held the GIL. While it waits for the GIL, the ticking thread wakes once per
sys.getswitchinterval(), so the number of times it was scheduled says for how long.

`_lock` guards all fields: `check` is called by the ticking thread, and by the script's thread (in `take`).
"""

import sys
import threading
import time

from weft.runtime.measure.off_core import Starving

TICK_S = 0.05
PAUSE_S_MIN = 0.1
"""Shorter pauses cannot be told from scheduling noise."""


class Pauses:
    """Pauses, found by the ticking thread, or by the script's thread when it ends an activity that took long."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._starving = [Starving(threading.get_native_id())]
        """The script thread's and, once `begin` was called, the ticking thread's."""
        self._found_s = 0.0

    def begin(self) -> None:
        """Begin to look for pauses: from now on, the calling thread calls `check` about every TICK_S."""
        with self._lock:
            self._starving.append(Starving(threading.get_native_id()))
            self._mark()

    def check(self) -> None:
        """One tick: look for a pause since the last one. Does nothing before `begin`."""
        with self._lock:
            if len(self._starving) == 1:
                return
            since, busy_s, starved_s, num_runs = self._ticked, self._busy_s, self._starved_s, self._num_runs
            self._mark()
            asked_s = (self._num_runs - num_runs) * sys.getswitchinterval()
            expected_s = max(TICK_S + asked_s, self._busy_s - busy_s) + self._starved_s - starved_s
            pause_s = self._ticked - since - expected_s
            if pause_s >= PAUSE_S_MIN:
                self._found_s += pause_s

    def _mark(self) -> None:
        self._ticked = time.perf_counter()
        self._busy_s = time.process_time()
        self._starved_s = sum(each.seconds() for each in self._starving)
        self._num_runs = self._starving[-1].num_runs()

    def found_s(self) -> float:
        """Seconds of pauses that were found and not taken yet."""
        return self._found_s

    def take(self) -> float:
        """Seconds of pauses since the last call; they fell into the script's current activity."""
        self.check()
        with self._lock:
            found_s, self._found_s = self._found_s, 0.0
        return found_s
