"""What a worker counts of itself, and when it tells."""

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
"""The loss that is told is the mean over so many steps: that of one small batch says little."""
MARKS_MAX = 32
"""Of the steps between two statuses, the last ones are told one by one."""


class Metrics:
    """Counts from the beginning of the run."""

    def __init__(self, rank: int, activity_clock: ActivityClock) -> None:
        self._rank = rank
        self._activity_clock = activity_clock
        self._cpu_clock = time.pthread_getcpuclockid(threading.get_ident())
        self._cpu_began = 0.0
        self._served_s = 0.0
        """What the driver took in which a server sits with this worker."""
        self._reporting_since: float | None = None
        """The thread's time when it began to evaluate or save, if it does."""
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
        """What the user has to know."""
        self.first_gradient: str | None = None
        self.first_item: str | None = None

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
        """How long the script has computed and read, without serving others and without waiting for a core."""
        mark = self._mark()
        return {COMPUTES: mark.compute_s, READS: mark.input_s}

    def is_due(self) -> bool:
        """True some times a second."""
        now = time.perf_counter()
        if now - self._told < TELL_EVERY_S:
            return False
        self._told = now
        return True

    def observe(self, runtime: "WorkerRuntime") -> None:
        """Read the counters of the driver and its transports."""
        count, total, most = runtime.driver.notes.get("staleness", (0.0, 0.0, 0.0))
        self._staleness = (total / count if count else 0.0, most)
        self._bytes_sent, self._num_copies, self._refused = runtime.counters()
        self._coding = runtime.coding()
        self._links = runtime.links()
        self._device = runtime.device()

    def observe_links(self, links: list[LinkStatus]) -> None:
        """What connections to other workers have carried, where no transport of Weft's knows."""
        self._links = links

    def begin(self) -> None:
        """The run begins now: all have joined."""
        self._began = time.perf_counter()
        self._activity_clock.begin()
        self._cpu_began = time.clock_gettime(self._cpu_clock)

    @contextmanager
    def driving(self, *, serves: bool) -> Iterator[None]:
        """The driver has its say: where it serves others, the script is not slow for it."""
        if not serves:
            yield
            return
        before = self._activity_clock.own_seconds()[COMPUTES]
        yield
        self._served_s += self._activity_clock.own_seconds()[COMPUTES] - before

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """The script evaluates or saves meanwhile, which is no part of its training."""
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
