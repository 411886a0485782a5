"""A run at some moments, as its logs have it: what was reached, and rates since the moment before."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from msgspec import Struct

Numbers = Mapping[str, float | None]
Figure = TypeVar("Figure", int, float)


class Count(NamedTuple):
    """What a worker has counted since the run began."""

    step: int
    samples: float
    waiting_s: float
    bytes_sent: int


class WorkerMoment(Struct, frozen=True):
    """One worker at a moment."""

    rank: int
    step: int
    samples: float
    waiting_fraction: float
    """The share of its time since the moment before in which its script waited for others, from 0 to 1."""
    bytes_sent: int | None


class Moment(Struct, frozen=True):
    """All workers at a moment."""

    at_s: float
    """Since the run began."""
    step: int
    """That of a worker, on average."""
    samples: float
    samples_per_s: float
    """Since the moment before."""
    loss: float | None
    waiting_fraction: float
    staleness_mean: float | None
    """Of all updates so far. This and the bytes are not known of a baseline."""
    bytes_sent: int | None
    workers: list[WorkerMoment]


class Log(Protocol):
    """Where a run is written down while it goes on."""

    def begin(self, about: Mapping[str, Any]) -> None:
        """The run is about to start; what is known of it."""
        ...

    def moment(self, moment: Moment) -> None: ...

    def report(self, at_s: float, step: int, epoch: int, numbers: Numbers, consensus: float | None) -> None: ...

    def remark(self, at_s: float, event: str, text: str) -> None:
        """Something that is best said in words: who is slow, what failed."""
        ...

    def end(self, at_s: float, about: Mapping[str, Any]) -> None:
        """The run is over; what it amounts to."""
        ...

    def close(self) -> None: ...


class Moments:
    """Makes moments of what workers have counted, one after another; of a baseline, messages are not counted."""

    def __init__(self, num_workers: int, *, counts_messages: bool = True) -> None:
        self._counts_messages = counts_messages
        self._before = [Count(0, 0.0, 0.0, 0)] * num_workers
        self._at_s = 0.0

    @property
    def at_s(self) -> float:
        """When the last one was."""
        return self._at_s

    def make(self, at_s: float, counts: Sequence[Count], loss: float | None, staleness_mean: float) -> Moment:
        """The next moment; nothing is known of rates if no time has passed."""
        passed_s, before = at_s - self._at_s, self._before
        self._at_s, self._before = at_s, list(counts)
        workers = [
            WorkerMoment(
                rank,
                count.step,
                count.samples,
                min(1.0, _ratio(count.waiting_s - earlier.waiting_s, passed_s)),
                self._known(count.bytes_sent),
            )
            for rank, (count, earlier) in enumerate(zip(counts, before, strict=True))
        ]
        samples = sum(count.samples for count in counts)
        return Moment(
            at_s,
            sum(count.step for count in counts) // len(counts),
            samples,
            _ratio(samples - sum(count.samples for count in before), passed_s),
            loss,
            sum(worker.waiting_fraction for worker in workers) / len(workers),
            self._known(staleness_mean),
            self._known(sum(count.bytes_sent for count in counts)),
            workers,
        )

    def _known(self, figure: Figure) -> Figure | None:
        return figure if self._counts_messages else None


def _ratio(part: float, whole: float) -> float:
    return max(0.0, part) / whole if whole > 0 else 0.0
