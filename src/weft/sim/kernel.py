"""The kernel: a heap of (time, priority, counter, callback). Time is whole nanoseconds."""

import gc
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

NS_PER_S = 1_000_000_000
Callback = Callable[..., None]

FIRST = 0
NORMAL = 1 << 48
"""Priorities leave room for the counter, so that one number orders what happens at the same time."""

GC_THRESHOLD = 50_000


def to_ns(seconds: float) -> int:
    """Seconds as whole nanoseconds."""
    return round(seconds * NS_PER_S)


class Kernel:
    """Runs callbacks in the order of time, then priority, then when they were asked for."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.stopped_because: str | None = None
        self._heap: list[tuple[int, int, Callback, tuple[Any, ...]]] = []
        self._counter = 0

    @property
    def now_s(self) -> float:
        return self.now_ns / NS_PER_S

    def at(self, time_ns: int, callback: Callback, args: tuple[Any, ...] = (), priority: int = NORMAL) -> None:
        """Run callback(*args) at a time that is not before now."""
        self._counter += 1
        heappush(self._heap, (time_ns, priority + self._counter, callback, args))

    def stop(self, reason: str) -> None:
        """Let `run` return after the callback under way."""
        self.stopped_because = reason

    def run(self) -> None:
        """Run until nothing is left to do, or until stopped.

        Millions of records come and go and none is part of a cycle, so the collector of cycles looks
        less often meanwhile.
        """
        heap = self._heap
        thresholds = gc.get_threshold()
        gc.set_threshold(GC_THRESHOLD, *thresholds[1:])
        try:
            while heap and self.stopped_because is None:
                self.now_ns, _, callback, args = heappop(heap)
                callback(*args)
        finally:
            gc.set_threshold(*thresholds)
