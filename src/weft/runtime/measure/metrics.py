"""A worker's counters, and the statuses made of them.

The script's thread counts; the heartbeat thread calls `status`, too. A status may therefore mix counters of two
moments, which is harmless: the next one is due in a fraction of a second.
"""

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from weft.core.activity import COMPUTES, PAUSED, READS, REPORTS, WAITS
from weft.observe.records.left_out import LeftOut
from weft.observe.records.status import CodingStatus, DeviceStatus, LinkStatus, Mark, Status
from weft.runtime.measure.activity_clock import ActivityClock

if TYPE_CHECKING:
    from weft.runtime.worker_runtime import WorkerRuntime

TELL_EVERY_S = 0.1
LOSSES_MAX = 20
"""The loss in a status is the mean over the last LOSSES_MAX steps, since that of one small batch says little."""
MARKS_MAX = 32
"""A status has a mark of each step since the previous status, at most of the last MARKS_MAX."""


class Metrics:
    """Counters since the beginning of the run."""

    def __init__(self, rank: int, activity_clock: ActivityClock) -> None:
        self._rank = rank
        self._activity_clock = activity_clock
        self._cpu_clock = time.pthread_getcpuclockid(threading.get_ident())
        self._cpu_began = 0.0
        self._served_s = 0.0
        """Seconds of the script's thread that went into driving, in a process that hosts a server."""
        self._reporting_since: float | None = None
        """The thread's CPU time when it began to evaluate or save; None while it does neither."""
        self._began = time.perf_counter()
        self._told = self._began
        self._step = 0
        self._samples = 0.0
        self._losses: deque[float] = deque(maxlen=LOSSES_MAX)
        self._staleness = (0.0, 0.0)
        self._bytes_sent = 0
        self._num_copies = 0
        self._refused = 0
        self._coding: CodingStatus | None = None
        self._marks: deque[Mark] = deque(maxlen=MARKS_MAX)
        self._links: list[LinkStatus] = []
        self._device: DeviceStatus | None = None
        self.left_out: LeftOut | None = None
        """The last gradient that was left out because it was not finite."""
        self.notices: list[str] = []
        """Messages for the user."""
        self.first_gradient: str | None = None
        self.first_item: str | None = None

    def begin_at(self, step: int) -> None:
        """Count steps from `step` on."""
        self._step = step

    def step(self, samples: float, loss: float | None) -> None:
        self._step += 1
        self._samples += samples
        self._marks.append(self._mark())
        if loss is not None:
            self._losses.append(loss)

    def _mark(self) -> Mark:
        own, so_far_s = self._activity_clock.own_seconds(), time.perf_counter() - self._began
        computed = max(0.0, own[COMPUTES] - self._served_s)
        return Mark(self._step, so_far_s, self._samples, computed, own[READS], own[PAUSED])

    def own_seconds(self) -> dict[str, float]:
        """Seconds of computing and reading, without serving other workers and without waiting for a core."""
        mark = self._mark()
        return {COMPUTES: mark.compute_s, READS: mark.input_s}

    def is_due(self) -> bool:
        """Whether a status is due; true at most once in TELL_EVERY_S."""
        now = time.perf_counter()
        if now - self._told < TELL_EVERY_S:
            return False
        self._told = now
        return True

    def observe(self, runtime: "WorkerRuntime") -> None:
        """Read the counters of driver and transport."""
        count, total, most = runtime.driver.notes.get("staleness", (0.0, 0.0, 0.0))
        self._staleness = (total / count if count else 0.0, most)
        self._bytes_sent, self._num_copies, self._refused = runtime.counters()
        self._coding = runtime.coding()
        self._links = runtime.links()
        self._device = runtime.device()

    def observe_links(self, links: list[LinkStatus]) -> None:
        """Set the traffic of connections that a library, rather than Weft's transport, has made."""
        self._links = links

    def begin(self) -> None:
        """Start counting: all workers have joined."""
        self._began = time.perf_counter()
        self._activity_clock.begin()
        self._cpu_began = time.clock_gettime(self._cpu_clock)

    @contextmanager
    def driving(self, *, serves: bool) -> Iterator[None]:
        """A context in which the script's thread drives; with `serves`, its time counts as serving other nodes."""
        if not serves:
            yield
            return
        before = self._activity_clock.own_seconds()[COMPUTES]
        yield
        self._served_s += self._activity_clock.own_seconds()[COMPUTES] - before

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """A context in which the script evaluates or saves: this CPU time is not counted as training."""
        self._reporting_since = time.clock_gettime(self._cpu_clock)
        with self._activity_clock.during(REPORTS):
            yield
        self._cpu_began += time.clock_gettime(self._cpu_clock) - self._reporting_since
        self._reporting_since = None

    def status(self, doing: str, *, is_waiting: bool = False) -> Status:
        seconds, reporting_since = self._activity_clock.seconds(), self._reporting_since
        cpu = time.clock_gettime(self._cpu_clock) if reporting_since is None else reporting_since
        marks = list(self._marks)
        self._marks.clear()
        return Status(
            rank=self._rank,
            time_s=time.perf_counter() - self._began,
            step=self._step,
            samples=self._samples,
            loss=sum(self._losses) / len(self._losses) if self._losses else None,
            waiting_s=seconds[WAITS],
            staleness_mean=self._staleness[0],
            staleness_max=self._staleness[1],
            bytes_sent=self._bytes_sent,
            num_copies=self._num_copies,
            refused=self._refused,
            steps_total=None,
            doing=doing,
            is_waiting=is_waiting,
            coding=self._coding,
            compute_s=seconds[COMPUTES],
            input_s=seconds[READS],
            paused_s=seconds[PAUSED],
            cpu_s=cpu - self._cpu_began,
            marks=marks,
            links=self._links,
            device=self._device,
            left_out=self.left_out,
            notices=list(self.notices),
            first_gradient=self.first_gradient,
            first_item=self.first_item,
        )
