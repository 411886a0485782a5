"""How a script's thread waits: it spins or yields for a short time, then sleeps in poll() on its descriptors.

| phase | when                                                   | what `pause` does                               |
|-------|--------------------------------------------------------|-------------------------------------------------|
| spin  | `owns_core`, in the first `spin_s` seconds of the wait | looks LOOKS times whether there may be news;    |
|       |                                                        | after ALONE_S it yields between two looks: the  |
|       |                                                        | one it waits for may have been put on this core |
| yield | not `owns_core`, in the first YIELDS turns of the wait | the same, a sched_yield() before each look: the |
|       |                                                        | others may need this core                       |
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
ALONE_S = 20e-6
"""How long a thread spins without yielding. Two workers on one core, while others have the other one, would else stay
so: each spins until it sleeps, in every reduction (0.4 ms instead of 0.1 for 64 KiB)."""
SWITCH_S_MIN, SWITCH_S_MAX = 3e-6, 200e-6
"""A yield that takes so long has let another worker do its part of a small reduction; an idle core's takes 0.4 us."""
LOOKS = 10
"""How often `pause` looks whether there may be news before it returns and the caller looks thoroughly."""
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
        self._alone_s = ALONE_S
        self._since: float | None = None
        self._num_yields = 0
        self._before = COMPUTES
        """What the script did before it had to wait."""
        self.has_slept = False
        """The last pause was a sleep, not a spin."""

    def pause(
        self,
        has_news: Callable[[], bool],
        due_s: float | None = None,
        may_have_news: Callable[[], bool] = lambda: True,
    ) -> None:
        """Let a little time pass, at most `due_s` seconds; returns early when a descriptor or the bell is readable.

        `has_news` is called once more after the listening word is set; `may_have_news`, a cheaper look, before.
        """
        self.has_slept = False
        now = time.perf_counter()
        if self._since is None:
            self._since, self._num_yields = now, 0
            self._before = self._activity_clock.turn_to(WAITS)
        if self._spins(now - self._since, may_have_news) if self._owns_core else self._yields(may_have_news):
            return
        self.has_slept = True
        self._sleep(has_news, SLEEP_S_MAX if due_s is None else max(0.0, min(SLEEP_S_MAX, due_s)))

    def _spins(self, waited_s: float, may_have_news: Callable[[], bool]) -> bool:
        """Look a few times for news, unless it is time to sleep."""
        if waited_s >= self._spin_s:
            return False
        for _ in range(LOOKS):
            if may_have_news():
                break
            if waited_s >= self._alone_s:
                self._yield_briefly()
        return True

    def _yield_briefly(self) -> None:
        """Yield the core; when another worker had it meanwhile, which shows in how long that took, the next wait yields
        at once. Someone who keeps it longer is no worker that waits for this one, and is not given it so readily."""
        since = time.perf_counter()
        os.sched_yield()
        is_shared = SWITCH_S_MIN < time.perf_counter() - since < SWITCH_S_MAX
        self._alone_s = 0.0 if is_shared else ALONE_S

    def _yields(self, may_have_news: Callable[[], bool]) -> bool:
        """Yield the core a few times, until there may be news, unless it is time to sleep."""
        num_left = min(LOOKS, YIELDS - self._num_yields)
        for _ in range(num_left):
            self._num_yields += 1
            os.sched_yield()
            if may_have_news():
                break
        return num_left > 0

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
