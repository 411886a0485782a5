"""The activity clock: what a worker's script does, since when, and how its time divides into activities."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from weft.core.activity import ACTIVITIES, COMPUTES, PAUSED
from weft.runtime.measure.off_core import Starving
from weft.runtime.measure.pauses import PAUSE_S_MIN, Pauses

Span = tuple[str, float, float]

STARVING_S_MIN = 0.001
"""For shorter activities, schedstat is not read: that takes some microseconds."""


class ActivityClock:
    """Adds up the seconds of the script's activities; at any time, the script is in exactly one.

    Only the script's thread writes; other threads may call `seconds` and `current`, and take `spans`. Times are those
    of `time.perf_counter`, which all processes of a host share. Time in which the whole process was stopped counts as
    PAUSED.
    """

    def __init__(self, *, keeps_spans: bool = False, pauses: Pauses | None = None) -> None:
        self._keeps_spans = keeps_spans
        self._pauses = pauses
        self.spans: list[Span] = []
        """(activity, since, until), if spans are kept; the thread that sends them removes them."""
        self.begin()

    def begin(self) -> None:
        """Start all counts from 0: the run begins now, in the calling thread."""
        self._activity = COMPUTES
        self._since = time.perf_counter()
        self._seconds = dict.fromkeys(ACTIVITIES, 0.0)
        self._starving = Starving(threading.get_native_id())
        self._starved = dict.fromkeys(ACTIVITIES, 0.0)
        self._starved_s = self._starving.seconds()
        self.spans.clear()

    @property
    def current(self) -> tuple[str, float]:
        """The script's activity, and since when."""
        return self._activity, self._since

    def turn_to(self, activity: str) -> str:
        """The script does `activity` from now on; returns what it did until now."""
        before, now = self._activity, time.perf_counter()
        seconds = now - self._since
        if seconds < STARVING_S_MIN and not self._keeps_spans:  # too short for a pause, too
            self._seconds[before] += seconds
        else:
            self._close(now)
        self._activity, self._since = activity, now
        return before

    def _close(self, now: float) -> None:
        self._set_pauses_apart(now)
        self._set_starving_apart(now - self._since)
        self._note(self._activity, self._since, now)

    def _set_starving_apart(self, seconds: float) -> None:
        """Count for how much of the current activity's last `seconds` the thread was ready but had no core."""
        if seconds >= STARVING_S_MIN:
            so_far_s = self._starving.seconds()
            self._starved[self._activity] += min(seconds, so_far_s - self._starved_s)
            self._starved_s = so_far_s

    def _set_pauses_apart(self, now: float) -> None:
        """Count pauses of the process since the last turn as PAUSED, and let the activity begin after them."""
        if self._pauses is None or now - self._since < PAUSE_S_MIN:
            return
        resumed = min(now, self._since + self._pauses.take())
        self._note(PAUSED, self._since, resumed)
        self._since = resumed

    def _note(self, activity: str, since: float, until: float) -> None:
        self._seconds[activity] += until - since
        if self._keeps_spans and until > since:
            self.spans.append((activity, since, until))

    @contextmanager
    def during(self, activity: str) -> Iterator[None]:
        """A context in which the script does `activity`; afterwards it does what it did before."""
        before = self.turn_to(activity)
        try:
            yield
        finally:
            self.turn_to(before)

    def turn_back_to(self, activity: str, seconds: float) -> None:
        """Count the last `seconds` as `activity`, after the fact, instead of as the current activity."""
        since, now = self._since, time.perf_counter()
        self._set_pauses_apart(now)
        middle = max(self._since, now - max(0.0, seconds - (self._since - since)))
        self._set_starving_apart(middle - self._since)
        self._note(self._activity, self._since, middle)
        self._note(activity, middle, now)
        self._since = now

    def seconds(self) -> dict[str, float]:
        """Seconds of each activity until now."""
        seconds, activity, since = dict(self._seconds), self._activity, self._since
        so_far_s = max(0.0, time.perf_counter() - since)
        paused_s = 0.0 if self._pauses is None else min(so_far_s, self._pauses.found_s())
        seconds[PAUSED] += paused_s
        seconds[activity] += so_far_s - paused_s
        return seconds

    def own_seconds(self) -> dict[str, float]:
        """`seconds` without the time in which the script's thread was ready to run but had no core (schedstat).

        Workers of a machine share its cores: waiting for one does not make a worker slow. For the script's thread only.
        """
        seconds = self.seconds()
        open_s = time.perf_counter() - self._since
        if open_s >= STARVING_S_MIN:
            seconds[self._activity] -= min(open_s, self._starving.seconds() - self._starved_s)
        return {activity: max(0.0, seconds[activity] - self._starved[activity]) for activity in seconds}
