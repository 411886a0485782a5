"""--slow and worker.hiccups: a worker sleeps for the extra time that its iterations would take on a slower machine."""

import time
from random import Random

from weft.core.activity import COMPUTES, READS
from weft.runtime.measure.activity_clock import ActivityClock
from weft.runtime.measure.metrics import Metrics


class Stretching:
    """Makes iterations of one worker take `slow` times as long; a share of them, drawn by `chance`, longer still.

    Only the worker's own time is prolonged: computing, with updates, and reading input. Waiting for other workers or
    for a core is not, nor is serving other nodes in the same process. A sleep is booked as the activity that it
    prolongs; what it overslept is subtracted from the next one.
    """

    def __init__(
        self, slow: float, hiccups: tuple[float, float], chance: Random, activity_clock: ActivityClock, metrics: Metrics
    ) -> None:
        self._slow = slow
        self._share, self._factor = hiccups
        self._chance = chance
        self._activity_clock = activity_clock
        self._metrics = metrics
        self.is_on = slow > 1 or hiccups[0] > 0
        self.begin()

    def begin(self) -> None:
        """Start counting the worker's own time: the run begins."""
        self._counted_s = {COMPUTES: 0.0, READS: 0.0}
        self._owed_s = {COMPUTES: 0.0, READS: 0.0}

    def stretch(self) -> None:
        """After an iteration: sleep for the extra time that it would have taken on a slower machine."""
        if not self.is_on:
            return
        times = self._slow * (self._factor if self._chance.random() < self._share else 1.0)
        for activity, own_s in self._metrics.own_seconds().items():
            self._owed_s[activity] += (times - 1) * max(0.0, own_s - self._counted_s[activity])
            if self._owed_s[activity] > 0:
                with self._activity_clock.during(activity):
                    time.sleep(self._owed_s[activity])
                self._owed_s[activity] -= self._metrics.own_seconds()[activity] - own_s
        self._counted_s = self._metrics.own_seconds()
