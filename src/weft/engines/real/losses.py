"""Workers that were lost while the others went on: what is told of each."""

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from weft.engines.real import timeouts
from weft.engines.real.worker_record import WorkerRecord
from weft.observe.records.status import Status
from weft.observe.records.tracks import Incident

LOST, QUARANTINED, LEFT, REPLACED = "lost", "quarantined", "left", "replaced"


class WorkerLoss(Struct, frozen=True, kw_only=True):
    """One lost worker. Seconds are since the run began."""

    worker: int
    how: str = LOST
    """LOST, QUARANTINED (its gradients were bad) or LEFT (it was told to)."""
    cause: str
    step: int
    """The last step that the worker has told of."""
    detected_s: float
    told_s: float | None = None
    """When all others had frozen, and were told the view without it; None: the run ended before."""
    committed_s: float | None = None
    """When the first of the others had made a step without it; None: none has."""
    replaced_s: float | None = None
    """When a newcomer was there in its place, and all went on; None: it was not replaced."""

    def incidents(self) -> Iterator[Incident]:
        """What a trace shows of it."""
        yield Incident(self.worker, self.detected_s, self.how, {"cause": self.cause, "step": self.step})
        if self.replaced_s is not None:
            yield Incident(self.worker, self.replaced_s, REPLACED, {"cause": self.cause})

    def __str__(self) -> str:
        if self.how == LEFT:
            return f"worker {self.worker} left at step {self.step}, after {self.cause}"
        return f"worker {self.worker} is lost at step {self.step}: {self.cause}"


class Losses:
    """All losses of a run, in order."""

    def __init__(self) -> None:
        self.all: list[WorkerLoss] = []
        self._records: list[WorkerRecord] = []
        """What is known of the process of each."""
        self._died_s: dict[int, float] = {}

    def is_fresh(self, rank: int, now_s: float) -> bool:
        """Whether a worker died so lately, since this was first asked, that the others may still be laying out."""
        return now_s - self._died_s.setdefault(rank, now_s) < timeouts.LAYING_OUT_S

    def add(self, worker: WorkerRecord, cause: str, now_s: float, how: str = LOST) -> WorkerLoss:
        """A worker is lost."""
        step = 0 if worker.status is None else worker.status.step
        loss = WorkerLoss(worker=worker.rank, how=how, cause=cause, step=step, detected_s=now_s)
        self.all.append(loss)
        self._records.append(worker)
        return loss

    @property
    def replaced_ranks(self) -> set[int]:
        """The workers in whose place a newcomer came."""
        return {loss.worker for loss in self.all if loss.replaced_s is not None}

    @property
    def statuses(self) -> list[Status]:
        """What each lost worker that has told a status told last."""
        return [worker.status for worker in self._records if worker.status is not None]

    def replaced(self, rank: int, now_s: float) -> WorkerLoss:
        """A newcomer is there in the place of worker `rank`, which was lost; returns that loss."""
        place = max(place for place, loss in enumerate(self.all) if loss.worker == rank)
        self.all[place] = msgspec.structs.replace(self.all[place], replaced_s=now_s)
        self._died_s.pop(rank, None)
        return self.all[place]

    def told(self, now_s: float) -> None:
        """All others have been told the view without those that were lost so far."""
        self.all = [one if one.told_s is not None else msgspec.structs.replace(one, told_s=now_s) for one in self.all]

    def committed(self, now_s: float) -> None:
        """A step has been made since the view was told without those that were lost so far."""
        self.all = [
            msgspec.structs.replace(one, committed_s=now_s)
            if one.told_s is not None and one.committed_s is None
            else one
            for one in self.all
        ]
