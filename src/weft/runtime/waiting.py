"""How a script's thread waits: it spins or yields for a short time, then sleeps in poll() on its descriptors.

| phase | when                                                   | what `pause` does                               |
|-------|--------------------------------------------------------|-------------------------------------------------|
| spin  | `owns_core`, in the first `spin_s` seconds of the wait | returns at once, so that the caller looks again |
| yield | not `owns_core`, in the first YIELDS calls of the wait | sched_yield(): the others may need this core    |
| sleep | after that                                             | poll() for SLEEP_S_MAX or until `due_s`         |

Before it sleeps, the thread sets its listening word (`Bells.listen`, with a fence) and looks for news once more: news
that came before the word was set rang no bell.
"""

import os
import select
import time
from collections.abc import Callable, Sequence

from weft.core.activity import COMPUTES, WAITS
from weft.runtime.measure.activity_clock import ActivityClock
from weft.transports.bells import SCRIPT, Bells

YIELDS = 20
"""How often the thread yields its core before it sleeps, where workers share cores."""
SLEEP_S_MAX = 0.1


class Waiting:
    """The waits of one thread: it calls `pause` repeatedly while it has nothing to do, and `resume` when it has."""

    def __init__(
        self,
        descriptors: Sequence[int],
        activity_clock: ActivityClock,
        bells: Bells | None = None,
        *,
        owns_core: bool = False,
        spin_s: float = 0.0,
    ) -> None:
        self._activity_clock = activity_clock
        self._bells = bells
        self._poll = select.poll()
        for descriptor in (*descriptors, *([] if bells is None else [bells.fileno(SCRIPT)])):
            self._poll.register(descriptor, select.POLLIN)
        self._owns_core = owns_core
        self._spin_s = spin_s
        self._since: float | None = None
        self._num_yields = 0
        self._before = COMPUTES
        """What the script did before it had to wait."""
        self.has_slept = False
        """The last pause was a sleep, not a spin."""

    def pause(self, has_news: Callable[[], bool], due_s: float | None = None) -> None:
        """Let a little time pass, at most `due_s` seconds; returns early when a descriptor or the bell is readable.

        `has_news` is called once more after the listening word is set.
        """
        self.has_slept = False
        now = time.perf_counter()
        if self._since is None:
            self._since, self._num_yields = now, 0
            self._before = self._activity_clock.turn_to(WAITS)
        if self._owns_core and now - self._since < self._spin_s:
            return
        if not self._owns_core and self._num_yields < YIELDS:
            self._num_yields += 1
            os.sched_yield()
            return
        self.has_slept = True
        self._sleep(has_news, SLEEP_S_MAX if due_s is None else max(0.0, min(SLEEP_S_MAX, due_s)))

    def _sleep(self, has_news: Callable[[], bool], timeout_s: float) -> None:
        if self._bells is None:
            self._poll.poll(timeout_s * 1000)
            return
        self._bells.listen(SCRIPT)
        if not has_news():
            self._poll.poll(timeout_s * 1000)
        self._bells.listen(SCRIPT, enabled=False)
        self._bells.silence(SCRIPT)

    def resume(self) -> None:
        """End the wait; the next call of `pause` begins a new one, with a spin or yields."""
        if self._since is not None:
            self._activity_clock.turn_to(self._before)
            self._since = None
