"""Notices that the whole process stood still: it was stopped and let go on, or its machine was.

A thread ticks. When a tick comes much too late although the process had nothing to do meanwhile, nobody in it ran:
slow computing uses a core, starving is on the system's account of waiting for one, and a script that sleeps or blocks
does not keep the ticking thread from running. One that blocks and does not let go of the interpreter does; but then the
ticking thread wakes again and again to ask for it, and the system counts how often.
"""

import sys
import threading
import time

from weft.runtime.measure.off_core import Starving

TICK_S = 0.05
PAUSE_S_MIN = 0.1
"""What is shorter is not told apart from the system's moods."""


class Pauses:
    """Found by whoever comes first: the thread that ticks, or the script's when it ends something that took long."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._starving = [Starving(threading.get_native_id())]
        """Of the script's thread, and of the one that ticks once it does."""
        self._found_s = 0.0

    def begin(self) -> None:
        """The calling thread will tick from now on."""
        with self._lock:
            self._starving.append(Starving(threading.get_native_id()))
            self._mark()

    def check(self) -> None:
        """One tick: the time since the last one is looked at. Nothing is found before somebody has begun to tick."""
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
        """What was found and not taken yet."""
        return self._found_s

    def take(self) -> float:
        """What was found since the last call: it fell into what the script does, or has just done."""
        self.check()
        with self._lock:
            found_s, self._found_s = self._found_s, 0.0
        return found_s
