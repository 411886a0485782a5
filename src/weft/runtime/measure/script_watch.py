"""The script watch: notices that a worker's script stays in one activity for long, and sends the engine its stack.

The engine decides what that means: it knows whether other workers wait for this one. A daemon thread reads the
activity clock of the script's thread. That works while the script sleeps or waits for a device or a file; not while
native code holds the GIL, when this thread cannot run either.
"""

import sys
import threading
import time
from collections.abc import Callable
from math import inf
from traceback import StackSummary, walk_stack

from weft.core.activity import WAITS
from weft.core.errors import TransportError
from weft.observe.records.status import StackTold
from weft.runtime.channel import Channel
from weft.runtime.measure.activity_clock import ActivityClock
from weft.runtime.seats.engine_seat import EngineSeat
from weft.runtime.seats.failure import PACKAGE

LOOK_S = 1.0
STAYS_S = 8.0
"""The stack is sent when the script has been in one activity, other than waiting for other workers, for this long."""
TELL_EVERY_S = 4.0
"""How often the stack is sent while the script stays in that activity."""
FRAMES_MAX = 12
CHARACTERS_MAX = 4000

Tell = Callable[[float, str], object]
"""Takes the seconds that the script has been in its activity, and its stack."""


class ScriptWatch:
    """Watches the script of the thread in which this object is created."""

    def __init__(self, activity_clock: ActivityClock, tell: Tell, is_over: Callable[[], bool]) -> None:
        self._activity_clock = activity_clock
        self._tell = tell
        self._is_over = is_over
        self._thread = threading.get_ident()
        self._told_s = -inf

    def start(self) -> None:
        """Start the thread, which looks every LOOK_S until `is_over` is true or the engine is gone."""
        threading.Thread(target=self._run, name="weft watch over the script", daemon=True).start()

    def _run(self) -> None:
        while not self._is_over():
            try:
                self.look(time.perf_counter())
            except TransportError:  # the engine is gone, which the script's thread notices by itself
                return
            time.sleep(LOOK_S)

    def look(self, now_s: float) -> None:
        """Send the stack if the script has been in one activity for STAYS_S; at most every TELL_EVERY_S."""
        activity, since_s = self._activity_clock.current
        if activity == WAITS or now_s - since_s < STAYS_S:
            self._told_s = -inf
        elif now_s - self._told_s >= TELL_EVERY_S:
            self._told_s = now_s
            self._tell(now_s - since_s, stack_of(self._thread))


def watch_script(seat: EngineSeat, channel: Channel) -> None:
    """Start a thread that tells the engine when the script of the calling thread stays in one activity for long."""

    def tell(seconds: float, stack: str) -> None:
        channel.send(StackTold(seconds, stack), droppable=True)

    ScriptWatch(seat.activity_clock, tell, lambda: channel.is_finished or channel.is_closed).start()


def stack_of(thread: int) -> str:
    """The stack of a thread as in tracebacks, innermost frame last; Weft's frames are left out if there are others."""
    frame = sys._current_frames().get(thread)
    if frame is None:
        return ""
    stack = StackSummary.extract(walk_stack(frame))
    stack.reverse()
    theirs = [each for each in stack if not each.filename.startswith((PACKAGE, "<frozen"))]
    lines = StackSummary.from_list((theirs or stack)[-FRAMES_MAX:]).format()
    text = "".join(lines).rstrip().encode("utf-8", "backslashreplace").decode()
    return text[-CHARACTERS_MAX:]
