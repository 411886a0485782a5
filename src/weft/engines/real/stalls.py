"""A worker whose script stays in one place while others wait for it: found, and said with its stack.

That is no failure: an evaluation may take long. Whoever looks on is told, the run goes on, and if it ends by a failure
or is stopped while that lasts, that is said, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from weft.engines.real.worker_record import WorkerRecord
from weft.observe.records.status import StackTold

WAITED_S = 8.0
"""Others must have waited so long before anything is said."""
FRESH_S = 8.0
"""What was said of a stack longer ago does not count any more: its worker has gone on."""
AGAIN = 2.0
"""The same worker is named again when it stays in one place for so many times as long as when it was named last."""
TO_JOIN = "waits for the others to join"
TO_END = "has ended and waits for the others to end"


@dataclass
class BlockedWorker:
    """A worker that needs others to go on."""

    what: str
    step: int
    since_s: float


class Delays:
    """Told of every stack; asked now and then who keeps others waiting."""

    def __init__(self) -> None:
        self._stacks: dict[int, tuple[StackTold, float]] = {}
        """The last of each worker, and when it came."""
        self._waiting: dict[int, BlockedWorker] = {}
        self._named_s: dict[int, float] = {}
        """For how long a worker had been in one place when it was named last."""

    def hear(self, rank: int, told: StackTold, now_s: float) -> None:
        """A worker has said where its script is."""
        self._stacks[rank] = told, now_s

    def check(self, now_s: float, workers: Sequence[WorkerRecord], *, has_begun: bool) -> list[str]:
        """What is to be said now of workers for which others wait."""
        self._waiting = {
            worker.rank: self._since(worker, what, now_s)
            for worker in workers
            if (what := _waits_for(worker, has_begun=has_begun)) is not None
        }
        said = []
        for worker, told in self._late(now_s, workers):
            if told.seconds >= AGAIN * self._named_s.get(worker.rank, 0.0):
                self._named_s[worker.rank] = told.seconds
                said.append(self._text(worker, told, workers))
        return said

    def _since(self, worker: WorkerRecord, what: str, now_s: float) -> BlockedWorker:
        step = 0 if worker.status is None else worker.status.step
        before = self._waiting.get(worker.rank)
        return before if before is not None and before.step == step else BlockedWorker(what, step, now_s)

    def _late(self, now_s: float, workers: Sequence[WorkerRecord]) -> list[tuple[WorkerRecord, StackTold]]:
        """Those that stay in one place, if others have waited for long."""
        if not any(now_s - waiting.since_s >= WAITED_S for waiting in self._waiting.values()):
            return []
        fresh = {rank: told for rank, (told, heard_s) in self._stacks.items() if now_s - heard_s <= FRESH_S}
        return [(w, fresh[w.rank]) for w in workers if w.rank in fresh and w.rank not in self._waiting]

    def _text(self, worker: WorkerRecord, told: StackTold, workers: Sequence[WorkerRecord]) -> str:
        waits = [
            f"  Worker {w.rank}{_at_step(self._waiting[w.rank])} {self._waiting[w.rank].what}."
            for w in workers
            if w.rank in self._waiting
        ]
        return "\n".join(
            [
                f"worker {worker.rank} (host {worker.host}, pid {worker.pid}) has been in one place of its script for "
                f"{told.seconds:.0f} s, {worker.moment}, and others wait:",
                *waits,
                *(f"  {line}" for line in told.stack.splitlines()),
                "  If it computes or evaluates there, all is well: the run goes on. Else stop it, and look there.",
            ]
        )

    def lines(self, now_s: float, workers: Sequence[WorkerRecord]) -> list[str]:
        """One line for each worker that keeps others waiting now, for whoever says how the run ended."""
        return [
            f"  Worker {worker.rank} was in one place of its script for {told.seconds:.0f} s: {_place(told.stack)}."
            for worker, told in self._late(now_s, workers)
        ]


def _waits_for(worker: WorkerRecord, *, has_begun: bool) -> str | None:
    """What a worker needs others for; None if it does not wait for any."""
    if not worker.is_alive or not worker.has_joined:
        return None
    if worker.has_ended:
        return TO_END
    if not has_begun:
        return TO_JOIN
    return worker.status.doing if worker.status is not None and worker.status.is_waiting else None


def _at_step(waiting: BlockedWorker) -> str:
    return "" if waiting.what in (TO_JOIN, TO_END) else f", at step {waiting.step},"


def _place(stack: str) -> str:
    """The innermost place of a stack, in one line."""
    lines = [line.strip() for line in stack.splitlines()]
    start = max((index for index, line in enumerate(lines) if line.startswith("File ")), default=0)
    return ": ".join(lines[start : start + 2])
