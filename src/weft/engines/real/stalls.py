"""Finds workers whose scripts stay in one place while other workers wait, and tells the user their stacks.

That is no failure: an evaluation may take long. The observer is told and the run goes on. If the run fails or is
stopped meanwhile, its last message mentions the stall.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from weft.engines.real import timeouts
from weft.engines.real.worker_record import WorkerRecord
from weft.observe.records.status import StackTold

AGAIN = 2.0
"""The same worker is named again when its stall is AGAIN times as long as when it was named last."""
TO_JOIN = "waits for the others to join"
TO_END = "has ended and waits for the others to end"


@dataclass
class BlockedWorker:
    """What a worker waits for, at which step, and since when."""

    what: str
    step: int
    since_s: float


class Delays:
    """Finds stalls: `hear` takes stacks; `check`, called in the supervisor's loop, returns texts for the user."""

    def __init__(self) -> None:
        self._stacks: dict[int, tuple[StackTold, float]] = {}
        """Each worker's last stack, and when it came."""
        self._waiting: dict[int, BlockedWorker] = {}
        self._named_s: dict[int, float] = {}
        """Length of each worker's stall when it was named last."""

    def hear(self, rank: int, told: StackTold, now_s: float) -> None:
        """Take the stack of worker `rank`, whose script has been in one place for some time."""
        self._stacks[rank] = told, now_s

    def check(self, now_s: float, workers: Sequence[WorkerRecord], *, has_begun: bool) -> list[str]:
        """Messages about workers for which others wait, if they are due now."""
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
        """The workers that stay in one place, and their stacks, if others have waited for STALL_S."""
        if not any(now_s - waiting.since_s >= timeouts.STALL_S for waiting in self._waiting.values()):
            return []
        fresh = {
            rank: told for rank, (told, heard_s) in self._stacks.items() if now_s - heard_s <= timeouts.STACK_FRESH_S
        }
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
        """One line for each worker that keeps others waiting now, for the message that ends the run."""
        return [
            f"  Worker {worker.rank} was in one place of its script for {told.seconds:.0f} s: {_place(told.stack)}."
            for worker, told in self._late(now_s, workers)
        ]


def _waits_for(worker: WorkerRecord, *, has_begun: bool) -> str | None:
    """What `worker` waits for other workers to do; None if it does not wait."""
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
    """The innermost frame of a stack, in one line."""
    lines = [line.strip() for line in stack.splitlines()]
    start = max((index for index, line in enumerate(lines) if line.startswith("File ")), default=0)
    return ": ".join(lines[start : start + 2])
