"""Finds workers whose gradients are not finite step after step, so that they can be ended and replaced.

| a worker | when                                                                                          |
|----------|-----------------------------------------------------------------------------------------------|
| is bad   | its last IN_A_ROW steps, or more, were left out                                               |
| is well  | since another became bad, it has made WELL_STEPS steps, and nothing of its last was left out  |
| neither  | else: what it says next is awaited                                                            |

If every other worker that trains is bad or well, and at least one is well, the bad ones are quarantined. If all workers
are bad, it is not them but the model that has diverged.
"""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from weft.config.on_loss import STOP
from weft.core.errors import NotFinite
from weft.observe.records.left_out import LeftOut
from weft.observe.records.status import Status

IN_A_ROW = 5
"""One bad batch of data makes one bad gradient, and a learning rate that is too high soon makes all workers bad."""
WELL_STEPS = 2
"""The gradient of the second was begun after the other worker had become bad."""


class Quarantine:
    """What the statuses of one run's workers say of their gradients. `tell` tells the user."""

    def __init__(self, on_loss: str, tell: Callable[[str], None]) -> None:
        self._on_loss = on_loss
        self._tell = tell
        self._heard: dict[int, Status] = {}
        self._bad: dict[int, BadRow] = {}
        """The workers that are bad now."""
        self._told: set[int] = set()
        """The bad workers that the user was told of, where none are quarantined."""
        self._has_told_all = False

    def hear(self, status: Status) -> None:
        """Take a worker's status."""
        self._heard[status.rank] = status
        row = _row(status)
        if row is None or row.num_in_a_row < IN_A_ROW:
            self._bad.pop(status.rank, None)
        elif status.rank not in self._bad:
            steps = {rank: told.step for rank, told in self._heard.items()}
            self._bad[status.rank] = BadRow(row.first, row.what, steps)

    def forget(self, rank: int) -> None:
        """Worker `rank` is lost; a newcomer may take its place."""
        self._heard.pop(rank, None)
        self._bad.pop(rank, None)

    def check(self, members: Sequence[int], ended: Collection[int], unless: str = "") -> dict[int, str]:
        """The members that are to be quarantined, and why; those whose scripts have `ended` are not asked.

        Nobody is if the run would end without one (`unless` says why): the user is told, and it goes on. Raises
        NotFinite if all are bad, but where a loss is to end the run: there such a run goes on, and the user is told.
        """
        training = [rank for rank in members if rank not in ended]
        bad = [rank for rank in training if rank in self._bad]
        if not bad:
            return {}
        if len(bad) == len(members):
            self._find_diverged()
            return {}
        well = [rank for rank in training if rank not in bad]
        if not well or not all(self._is_well(rank, bad) for rank in well):
            return {}
        if not unless:
            return {rank: self._bad[rank].in_words() for rank in bad}
        for rank in (rank for rank in bad if rank not in self._told):
            self._told.add(rank)
            self._tell(
                f"worker {rank}: {self._bad[rank].in_words()}, while those of others were; it goes on and counts for "
                f"nothing ({unless}; --on-nan stop would end the run)"
            )
        return {}

    def _is_well(self, rank: int, bad: Collection[int]) -> bool:
        told = self._heard.get(rank)
        if told is None or _row(told) is not None:
            return False
        return all(told.step >= self._bad[other].steps.get(rank, 0) + WELL_STEPS for other in bad)

    def _find_diverged(self) -> None:
        rank = min(self._bad)
        text = (
            f"training has diverged: the gradients of all workers were not finite in {IN_A_ROW} steps in a row or "
            f"more; of worker {rank} {self._bad[rank].what} in steps {self._bad[rank].steps_in_words}.\n"
            "  Lower the learning rate, clip gradients, or look for what the script divides by."
        )
        if self._on_loss != STOP:
            raise NotFinite(text)
        if not self._has_told_all:
            self._has_told_all = True
            self._tell(text)


class BadRow(NamedTuple):
    """The steps in a row that made a worker bad."""

    first: int
    what: str
    """What was not finite when it became bad."""
    steps: dict[int, int]
    """The number of steps that each worker had made then, by what it had said."""

    @property
    def steps_in_words(self) -> str:
        return f"{self.first} to {self.first + IN_A_ROW - 1}"

    def in_words(self) -> str:
        """The cause of a loss."""
        return f"its gradients were not finite five steps in a row (steps {self.steps_in_words})"


def _row(status: Status) -> LeftOut | None:
    """What was left out of the step that the worker is making, or of the one before if that is all it has said."""
    left_out = status.left_out
    return left_out if left_out is not None and left_out.step >= status.step - 1 else None
