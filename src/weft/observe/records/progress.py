"""How far a real run is: what its workers told, as rates, shares and the time left."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite

from weft.observe.records.status import Status

WINDOW_S = 5.0
"""Rates and shares are those of so many last seconds."""

GRACE_S = 1.0
"""A worker that was silent for longer is counted as standing still from then on."""

NEWEST_LOSS = 0.3
"""The weight of the newest loss in the smoothed one."""

LOST = "lost"
"""What a worker does that is lost."""

MARKS_PER_WINDOW = 25
"""How much history is kept, however often a worker tells its status."""


@dataclass(frozen=True, slots=True)
class WorkerProgress:
    """One worker now. Rates and the waiting share are those of the last seconds."""

    rank: int
    step: int
    steps_total: int | None
    loss: float | None
    samples_per_s: float
    bytes_per_s: float
    waiting: float
    """The share of its time, from 0 to 1, that its script waited for others."""
    staleness_mean: float
    doing: str


@dataclass(frozen=True, slots=True)
class TotalProgress:
    """All workers now. `step` and `steps_total` are those of the worker that is furthest behind."""

    step: int
    steps_total: int | None
    loss: float | None
    samples_per_s: float
    bytes_per_s: float
    waiting: float
    staleness_mean: float
    fraction: float | None
    """The part of all steps that is done, from 0 to 1; None until every worker has said how many it will make."""
    time_left_s: float | None
    """Until the last worker is done, at the pace since its first status; None while that is unknown."""


class Progress:
    """The book of a run with `num_workers` workers; `now_s` is any clock, the same in all calls.

    Times between two statuses of a worker are measured by the worker's own `time_s`; `now_s` only says
    how long nothing was heard. So the two clocks need not agree.
    """

    def __init__(self, num_workers: int) -> None:
        self.num_workers = num_workers
        self._tracks: dict[int, _Track] = {}
        self._lost: dict[int, WorkerProgress | None] = {}
        """None of one that has told nothing before it was lost."""

    def update(self, status: Status, now_s: float) -> None:
        """Note what a worker told at `now_s`. A status older than the last one is dropped, and one of a lost worker."""
        if status.rank in self._lost:
            return
        track = self._tracks.get(status.rank)
        if track is None:
            self._tracks[status.rank] = _Track(status, now_s)
        elif status.time_s >= track.last.time_s:
            track.update(status, now_s)

    def lose(self, rank: int, now_s: float) -> None:
        """A worker is lost: it is shown as it was, and counts no more."""
        track = self._tracks.pop(rank, None)
        last = None if track is None else track.progress(now_s)
        self._lost[rank] = None if last is None else replace(last, samples_per_s=0.0, bytes_per_s=0.0, doing=LOST)
        self.num_workers -= 1

    def welcome(self, rank: int) -> None:
        """A newcomer is there in the place of a lost worker."""
        if rank in self._lost:
            del self._lost[rank]
            self.num_workers += 1

    def workers(self, now_s: float) -> list[WorkerProgress]:
        """Every worker that has told anything, by rank."""
        lost = [worker for worker in self._lost.values() if worker is not None]
        every = [*lost, *(track.progress(now_s) for track in self._tracks.values())]
        return sorted(every, key=lambda worker: worker.rank)

    def total(self, now_s: float) -> TotalProgress | None:
        """The whole run; None before the first status."""
        workers = [track.progress(now_s) for track in self._tracks.values()]
        if not workers:
            return None
        behind = min(workers, key=lambda worker: (_fraction(worker), worker.step))
        losses = [worker.loss for worker in workers if worker.loss is not None]
        return TotalProgress(
            behind.step,
            behind.steps_total,
            _mean(losses) if losses else None,
            sum(worker.samples_per_s for worker in workers),
            sum(worker.bytes_per_s for worker in workers),
            _mean([worker.waiting for worker in workers]),
            _mean([worker.staleness_mean for worker in workers]),
            self._fraction(),
            self._time_left_s(now_s),
        )

    def _fraction(self) -> float | None:
        totals = [track.last.steps_total for track in self._tracks.values()]
        known = [total for total in totals if total is not None]
        if len(known) < self.num_workers or not sum(known):
            return None
        return min(1.0, sum(track.last.step for track in self._tracks.values()) / sum(known))

    def _time_left_s(self, now_s: float) -> float | None:
        left = [track.time_left_s(now_s) for track in self._tracks.values()]
        known = [seconds for seconds in left if seconds is not None]
        return max(known) if len(known) == self.num_workers else None


class _Track:
    """One worker's statuses: the first, the last, and marks between them for rates."""

    def __init__(self, status: Status, now_s: float) -> None:
        self.first = self.last = status
        self.loss = status.loss
        self.heard_s = now_s
        self.marks = deque([status])

    def update(self, status: Status, now_s: float) -> None:
        if status.step > self.last.step or self.loss is None:
            self.loss = _smoothed(self.loss, status.loss)
        self.last, self.heard_s = status, now_s
        if status.time_s - self.marks[-1].time_s >= WINDOW_S / MARKS_PER_WINDOW:
            self.marks.append(status)
        while len(self.marks) > 1 and self.marks[1].time_s <= status.time_s - WINDOW_S:
            self.marks.popleft()

    def progress(self, now_s: float) -> WorkerProgress:
        first, last = self.marks[0], self.last
        told_s = last.time_s - first.time_s
        span_s = told_s + self._still_s(now_s)
        return WorkerProgress(
            last.rank,
            last.step,
            last.steps_total,
            self.loss,
            _ratio(last.samples - first.samples, span_s),
            _ratio(last.bytes_sent - first.bytes_sent, span_s),
            min(1.0, _ratio(last.waiting_s - first.waiting_s, told_s)),
            last.staleness_mean,
            last.doing,
        )

    def time_left_s(self, now_s: float) -> float | None:
        if self.last.steps_total is None:
            return None
        steps_left = max(0, self.last.steps_total - self.last.step)
        if steps_left == 0:
            return 0.0
        steps = self.last.step - self.first.step
        return steps_left * (self.last.time_s - self.first.time_s + self._still_s(now_s)) / steps if steps else None

    def _still_s(self, now_s: float) -> float:
        return max(0.0, now_s - self.heard_s - GRACE_S)


def steps_of_each(total: int | None, planned: int | None, told: Sequence[Status], num_workers: int) -> int | None:
    """How many steps each worker will make: `total` if it makes one for each batch of the `planned` samples of all,
    else by what those have done that have `told` anything."""
    if total is None or not planned or not told:
        return total
    share = sum(status.samples for status in told) / planned * num_workers / len(told)
    return steps_in_all(total, sum(status.step for status in told) / len(told), share)


def steps_in_all(num_batches: int, num_steps: float, share: float) -> int:
    """How many steps a worker will make that has made so many on this share of its samples.

    One for each batch, unless it makes several (a loss for each optimizer) or adds the gradients of several up.
    """
    if not num_steps or not share:
        return num_batches
    per_batch = num_steps / (num_batches * share)
    if per_batch < 1:
        return round(num_batches / round(1 / per_batch))
    return num_batches * round(per_batch)


def _smoothed(before: float | None, loss: float | None) -> float | None:
    """What is not finite is shown as it is, and does not stay once it is over."""
    if loss is None:
        return before
    if before is None or not isfinite(before) or not isfinite(loss):
        return loss
    return before + NEWEST_LOSS * (loss - before)


def _fraction(worker: WorkerProgress) -> float:
    return worker.step / worker.steps_total if worker.steps_total else 0.0


def _ratio(part: float, whole: float) -> float:
    return max(0.0, part) / whole if whole > 0 else 0.0


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
