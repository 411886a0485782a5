"""Gradients that were left out because they were not finite: what a worker tells of them, and in which words."""

from collections.abc import Callable, Sequence
from itertools import chain

from msgspec import Struct

from weft.core.errors import NotFinite

TOLD_MAX = 3
"""So many steps of a worker are told one by one; then the tenth, the hundredth and so on."""


class LeftOut(Struct, frozen=True, array_like=True):
    """The last gradient of a worker that was left out."""

    step: int
    what: str
    """What is not finite, by name."""
    num_steps: int
    """In how many steps of this worker something has been left out so far."""
    first: int
    """The first of the steps in a row, up to this one, in each of which something was left out."""

    def in_words(self, rank: int) -> str:
        """A line for the screen."""
        again = f" ({self.num_steps} steps so far)" if self.num_steps > 1 else ""
        return f"worker {rank} leaves out its gradient of step {self.step}: {self.what} is not finite{again}"

    @property
    def num_in_a_row(self) -> int:
        """In how many steps in a row, up to this one, something was left out."""
        return self.step - self.first + 1


def refuse(left_out: LeftOut | None, rank: int, step: int, loss: float | None) -> None:
    """Raise NotFinite if something of this step of worker `rank` was left out: what run.on_nan=stop asks for."""
    if left_out is None or left_out.step != step:
        return
    shown = "not known" if loss is None else f"{loss:.6g}"
    raise NotFinite(
        f"{left_out.what} of worker {rank} is not finite at step {step}, where its loss is {shown}, and --on-nan "
        "(run.on_nan) is stop.\n  Lower the learning rate if training has diverged, or look at the samples of that "
        "step; with exclude the run goes on without such gradients."
    )


def is_to_be_told(before: LeftOut | None, now: LeftOut) -> bool:
    """Whether a line is due, when `before` was told last."""
    told = 0 if before is None else before.num_steps
    due = chain(range(1, TOLD_MAX + 1), (10**power for power in range(1, 19)))
    return any(told < number <= now.num_steps for number in due)


class Lines:
    """Shows a line for each gradient that is left out, if one is due."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._told: dict[int, LeftOut] = {}

    def take(self, rank: int, now: LeftOut | None) -> None:
        """A worker tells the last gradient that it has left out, if there is one."""
        before = self._told.get(rank)
        if before is not None and now is not None and now.num_steps < before.num_steps:
            before = None  # another process has taken the worker's place
        if now is not None and is_to_be_told(before, now):
            self._told[rank] = now
            self._show(now.in_words(rank))


def summary(left_out: Sequence[int]) -> str:
    """The same of a whole run, from each worker's number of steps; empty if there were none."""
    each = [
        f"{number:,} {'step' if number == 1 else 'steps'} of worker {worker}"
        for worker, number in enumerate(left_out)
        if number
    ]
    return f"Gradients that were not finite were left out: {', '.join(each)}." if each else ""
