"""What a worker's script does, and since when: how its time divides into activities."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from weft.core.activity import ACTIVITIES, COMPUTES

Span = tuple[str, float, float]


class Diary:
    """Kept by the script's thread; others may read how the time divides.

    At any time the script does one thing. Times are those of `time.perf_counter`, which all processes of a host share.
    """

    def __init__(self, *, keeps_spans: bool = False) -> None:
        self._keeps_spans = keeps_spans
        self.spans: list[Span] = []
        """What was done from when to when, if that is kept; whoever takes some removes them."""
        self.begin()

    def begin(self) -> None:
        """The run begins now."""
        self._activity = COMPUTES
        self._since = time.perf_counter()
        self._seconds = dict.fromkeys(ACTIVITIES, 0.0)
        self.spans.clear()

    def turn_to(self, activity: str) -> str:
        """The script does something else from now on; what it did until now."""
        before, now = self._activity, time.perf_counter()
        self._close(now)
        self._activity, self._since = activity, now
        return before

    def _close(self, now: float) -> None:
        self._seconds[self._activity] += now - self._since
        if self._keeps_spans and now > self._since:
            self.spans.append((self._activity, self._since, now))

    @contextmanager
    def during(self, activity: str) -> Iterator[None]:
        """The script does this meanwhile, and goes on with what it did before."""
        before = self.turn_to(activity)
        try:
            yield
        finally:
            self.turn_to(before)

    def turn_back_to(self, activity: str, seconds: float) -> None:
        """Of the time since the last turn, so much at its end was spent otherwise: that is known only now."""
        now = time.perf_counter()
        middle = max(self._since, now - seconds)
        before = self._activity
        self._close(middle)
        self._activity, self._since = activity, middle
        self._close(now)
        self._activity, self._since = before, now

    def seconds(self) -> dict[str, float]:
        """How long the script has done what, until now."""
        seconds, activity, since = dict(self._seconds), self._activity, self._since
        seconds[activity] += max(0.0, time.perf_counter() - since)
        return seconds
