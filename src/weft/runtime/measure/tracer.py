"""What one process keeps for a trace of its run, until its engine has taken it."""

import time
from collections.abc import Callable
from threading import Lock
from typing import Any

from weft.core.actions import Reduce
from weft.core.names import NodeId
from weft.observe.records.tracks import Numbering, Passage, Reduction, Traced
from weft.runtime.measure.activity_clock import ActivityClock

WAITING_MAX = 50_000
"""Records of one sort that wait to be told; more are dropped, and counted."""
BATCH = 300
"""Records of one sort in a message: a channel takes so many at once."""


class Tracer:
    """Kept by whoever drives; told by another thread, which takes records from the front while they are added behind.

    The end of a run is told by whoever drives, while the other thread may still tell: one waits for the other.

    Times are those of `time.perf_counter`, as in the activity clock, whose spans are told along with the rest.
    """

    def __init__(self, activity_clock: ActivityClock) -> None:
        self._activity_clock = activity_clock
        self._steps: list[tuple[int, float]] = []
        self._passages: list[Passage] = []
        self._reductions: list[Reduction] = []
        self._numbering = Numbering()
        self._num_dropped = 0
        self._telling = Lock()

    def step(self, num_steps: int) -> None:
        """The script has made so many steps."""
        self._keep(self._steps, (num_steps, time.perf_counter()))

    def sent(self, source: NodeId, target: NodeId, kind: str, clock: int, num_bytes: int, since_s: float) -> None:
        """A message was sent; that began at `since_s`."""
        self._pass(True, source, target, kind, clock, num_bytes, since_s)

    def received(self, source: NodeId, target: NodeId, kind: str, clock: int, num_bytes: int, since_s: float) -> None:
        """A message came at `since_s`, and has been answered."""
        self._pass(False, source, target, kind, clock, num_bytes, since_s)

    def _pass(
        self, is_sent: bool, source: NodeId, target: NodeId, kind: str, clock: int, num_bytes: int, since_s: float
    ) -> None:
        number, now_s = self._numbering.next(is_sent, source, target), time.perf_counter()
        passage = Passage(is_sent, source, target, number, kind, clock, num_bytes, since_s, now_s)
        self._keep(self._passages, passage)

    def reduced(self, node: NodeId, action: Reduce, num_bytes: int, since_s: float) -> None:
        """A reduction to which a worker contributed at `since_s` has ended."""
        what = action.kind, action.clock, action.buffer.bucket
        self._keep(self._reductions, Reduction(node, *what, num_bytes, since_s, time.perf_counter()))

    def _keep(self, records: list[Any], record: Any) -> None:
        if len(records) < WAITING_MAX:
            records.append(record)
        else:
            self._num_dropped += 1

    def tell(self, send: Callable[[Traced], bool]) -> None:
        """Send what there is, until `send` says that the engine takes no more now."""
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
