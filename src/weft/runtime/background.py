"""The background driver: a thread that answers messages while the script computes.

The thread that drives, the script's or this one, holds the lock; `_rests` is read and written under it.

| state        | the thread is                                     | it wakes by                                       |
|--------------|---------------------------------------------------|---------------------------------------------------|
| stepped back | blocked on the lock, or asleep: the script drives | sockets, the timer; its bell is off (`step_back`) |
| took over    | asleep in poll() while the script computes        | its bell (`take_over`), sockets, the timer        |
| rests        | asleep, as `may_rest` allows                      | `doors`, and its bell, rung by messages or        |
|              |                                                   | `look_after`                                      |
"""

import select
import threading
from collections.abc import Callable, Sequence

from weft.runtime.waiting import SLEEP_S_MAX
from weft.transports.bells import BACKGROUND, Bells


class BackgroundDriver:
    """Calls `drive` under the lock whenever a descriptor is readable, or a timer may be due."""

    def __init__(
        self,
        bells: Bells,
        descriptors: Sequence[int],
        lock: threading.RLock,
        drive: Callable[[], float | None],
        fail: Callable[[BaseException], None],
        may_rest: Callable[[], bool] = lambda: False,
        doors: Sequence[int] = (),
    ) -> None:
        """`drive` returns the seconds until the next timer; `fail` is told the error that ends the thread. `doors` are
        the descriptors that tell of strangers.

        `may_rest`, called under the lock, says whether the thread may sleep until the script's next call, because no
        other process needs this one until then.
        """
        self._bells = bells
        self._may_rest = may_rest
        self._rests = False
        self._at_rest = select.poll()
        for descriptor in (bells.fileno(BACKGROUND), *doors):
            self._at_rest.register(descriptor, select.POLLIN)
        self._poll = select.poll()
        for descriptor in (bells.fileno(BACKGROUND), *descriptors):
            self._poll.register(descriptor, select.POLLIN)
        self._lock = lock
        self._drive = drive
        self._fail = fail
        threading.Thread(target=self._attend, name="weft background driver", daemon=True).start()

    def take_over(self) -> None:
        """The script is about to compute: turn this thread's bell on. The caller then looks for messages once more,
        because those that came before rang no bell."""
        self._bells.listen(BACKGROUND)

    def look_after(self) -> None:
        """Wake the thread if it rests but `may_rest` has become false, because the script has left work for it."""
        if self._rests and not self._may_rest():
            self._bells.ring_own()

    def step_back(self) -> None:
        """The script's thread drives: turn this thread's bell off, so that messages do not wake it."""
        self._bells.listen(BACKGROUND, enabled=False)

    def _attend(self) -> None:
        due_s: float | None = None
        try:
            while True:
                if self._rests:
                    self._at_rest.poll()
                else:
                    self._poll.poll(1000 * (SLEEP_S_MAX if due_s is None else max(0.0, min(SLEEP_S_MAX, due_s))))
                self._bells.silence(BACKGROUND)
                with self._lock:
                    due_s = self._drive()
                    self._rests = self._may_rest()
        except BaseException as error:
            self._fail(error)
