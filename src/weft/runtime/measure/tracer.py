"""The tracer: collects one process's records for the trace of the run, until they are sent to the engine.

| list                          | the driving thread | the heartbeat thread, holding `_telling`         |
|-------------------------------|--------------------|--------------------------------------------------|
| steps, passages, reductions   | appends            | copies a batch from the front, sends, deletes it |
| `spans` of the activity clock | appends            | as above                                         |

`append` and `del` of a slice are atomic under the GIL, so records need no lock. `_telling` keeps two threads from
sending the same batch: at the end of a run, the driving thread sends what is left.
"""

import time
from collections.abc import Callable
from threading import Lock
from typing import Any

from weft.core.actions import Reduce
from weft.core.names import NodeId
from weft.observe.records.tracks import Numbering, Passage, Reduction, Traced
from weft.runtime.measure.activity_clock import ActivityClock

WAITING_MAX = 50_000
"""At most this many records of a kind are kept; further ones are dropped, and counted."""
BATCH = 300
"""At most this many records of a kind are in one message, which then fits into a channel's buffer."""


class Tracer:
    """The records of one process. Times are those of `time.perf_counter`, as in the activity clock."""

    def __init__(self, activity_clock: ActivityClock) -> None:
        self._activity_clock = activity_clock
        self._steps: list[tuple[int, float]] = []
        self._passages: list[Passage] = []
        self._reductions: list[Reduction] = []
        self._numbering = Numbering()
        self._num_dropped = 0
        self._telling = Lock()

    def enter_view(self, view: int) -> None:
        """Members have changed: messages are counted anew."""
        self._numbering.enter_view(view)

    def step(self, num_steps: int) -> None:
        """Record that the script has made `num_steps` steps by now."""
        self._keep(self._steps, (num_steps, time.perf_counter()))

    def sent(self, source: NodeId, target: NodeId, kind: str, clock: int, num_bytes: int, since_s: float) -> None:
        """Record a message that was sent, from `since_s` until now."""
        self._pass(True, source, target, kind, clock, num_bytes, since_s)

    def received(self, source: NodeId, target: NodeId, kind: str, clock: int, num_bytes: int, since_s: float) -> None:
        """Record a message that was received at `since_s`, and has been answered by now."""
        self._pass(False, source, target, kind, clock, num_bytes, since_s)

    def _pass(
        self, is_sent: bool, source: NodeId, target: NodeId, kind: str, clock: int, num_bytes: int, since_s: float
    ) -> None:
        number, now_s = self._numbering.next(is_sent, source, target), time.perf_counter()
        passage = Passage(is_sent, source, target, number, kind, clock, num_bytes, since_s, now_s)
        self._keep(self._passages, passage)

    def reduced(self, node: NodeId, action: Reduce, num_bytes: int, since_s: float) -> None:
        """Record a reduction that has ended now; worker `node` contributed to it at `since_s`."""
        what = action.kind, action.clock, action.buffer.bucket
        self._keep(self._reductions, Reduction(node, *what, num_bytes, since_s, time.perf_counter()))

    def _keep(self, records: list[Any], record: Any) -> None:
        if len(records) < WAITING_MAX:
            records.append(record)
        else:
            self._num_dropped += 1

    def tell(self, send: Callable[[Traced], bool]) -> None:
        """Send all records in batches, until `send` returns False because the channel is full."""
        with self._telling:
            self._tell(send)

    def _tell(self, send: Callable[[Traced], bool]) -> None:
        every: tuple[list[Any], ...] = self._activity_clock.spans, self._steps, self._passages, self._reductions
        while any(every):
            spans, steps, passages, reductions = batch = [records[:BATCH] for records in every]
            if not send(Traced(spans, steps, passages, reductions, self._num_dropped)):
                break
            for records, told in zip(every, batch, strict=True):
                del records[: len(told)]
        if len(self._activity_clock.spans) > WAITING_MAX:
            self._num_dropped += len(self._activity_clock.spans) - WAITING_MAX
            del self._activity_clock.spans[WAITING_MAX:]
