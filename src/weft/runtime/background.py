"""The background driver: a thread that answers messages while the script computes.

It and the script's thread take turns: whoever drives holds the lock. The background driver's bell rings only
while the script computes, so a script that drives is not disturbed.

Where nothing comes unasked it rests, deaf to everything but its bell, until the script leaves something undone.
"""

import select
import threading
from collections.abc import Callable, Sequence

from weft.runtime.waiting import SLEEP_S_MAX
from weft.transports.bells import BACKGROUND, Bells


class BackgroundDriver:
    """Calls `drive` under the lock whenever a descriptor has something, or a timer may be due."""

    def __init__(
        self,
        bells: Bells,
        descriptors: Sequence[int],
        lock: threading.RLock,
        drive: Callable[[], float | None],
        fail: Callable[[BaseException], None],
        may_rest: Callable[[], bool] = lambda: False,
    ) -> None:
        """`may_rest` is asked under the lock: nobody waits for this process until its script calls again."""
        self._bells = bells
        self._may_rest = may_rest
        self._rests = False
        self._bell = select.poll()
        self._bell.register(bells.fileno(BACKGROUND), select.POLLIN)
        self._poll = select.poll()
        for descriptor in (bells.fileno(BACKGROUND), *descriptors):
            self._poll.register(descriptor, select.POLLIN)
        self._lock = lock
        self._drive = drive
        self._fail = fail
        threading.Thread(target=self._attend, name="weft background driver", daemon=True).start()

    def take_over(self) -> None:
        """The script is about to compute: hear the bell from now on; look once more for news after that."""
        self._bells.listen(BACKGROUND)

    def look_after(self) -> None:
        """The script goes on: if it leaves something undone, do not rest."""
        if self._rests and not self._may_rest():
            self._bells.ring_own()

    def step_back(self) -> None:
        """The script drives."""
        self._bells.listen(BACKGROUND, enabled=False)

    def _attend(self) -> None:
        due_s: float | None = None
        try:
            while True:
                if self._rests:
                    self._bell.poll()
                else:
                    self._poll.poll(1000 * (SLEEP_S_MAX if due_s is None else max(0.0, min(SLEEP_S_MAX, due_s))))
                self._bells.silence(BACKGROUND)
                with self._lock:
                    due_s = self._drive()
                    self._rests = self._may_rest()
        except BaseException as error:
            self._fail(error)
