"""Workers that were lost while the others went on: what is told of each."""

import msgspec
from msgspec import Struct

from weft.engines.real import timeouts
from weft.engines.real.worker_record import WorkerRecord


class WorkerLoss(Struct, frozen=True, kw_only=True):
    """One lost worker. Seconds are since the run began."""

    worker: int
    cause: str
    step: int
    """The last step that the worker has told of."""
    detected_s: float
    told_s: float | None = None
    """When all others had frozen, and were told the view without it; None: the run ended before."""
    replaced_s: float | None = None
    """When a newcomer was there in its place, and all went on; None: it was not replaced."""

    def __str__(self) -> str:
        return f"worker {self.worker} is lost at step {self.step}: {self.cause}"


class Losses:
    """All losses of a run, in order."""

    def __init__(self) -> None:
        self.all: list[WorkerLoss] = []
        self._died_s: dict[int, float] = {}

    def is_fresh(self, rank: int, now_s: float) -> bool:
        """Whether a worker died so lately, since this was first asked, that the others may still be laying out."""
        return now_s - self._died_s.setdefault(rank, now_s) < timeouts.LAYING_OUT_S

    def add(self, worker: WorkerRecord, cause: str, now_s: float) -> WorkerLoss:
        """A worker is lost."""
        step = 0 if worker.status is None else worker.status.step
        loss = WorkerLoss(worker=worker.rank, cause=cause, step=step, detected_s=now_s)
        self.all.append(loss)
        return loss

    def replaced(self, rank: int, now_s: float) -> WorkerLoss:
        """A newcomer is there in the place of worker `rank`, which was lost; returns that loss."""
        place = max(place for place, loss in enumerate(self.all) if loss.worker == rank)
        self.all[place] = msgspec.structs.replace(self.all[place], replaced_s=now_s)
        self._died_s.pop(rank, None)
        return self.all[place]

    def told(self, now_s: float) -> None:
        """All others have been told the view without those that were lost so far."""
        self.all = [one if one.told_s is not None else msgspec.structs.replace(one, told_s=now_s) for one in self.all]
