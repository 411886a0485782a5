"""Notices scripts that change their learning rates and name nothing that does: it would begin anew elsewhere."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

UNNAMED = (
    "the script changes its learning rate, and what does that would begin anew; name it by worker.keep(scheduler=...), "
    "or call worker.keep() if the rate follows from the step or the epoch alone"
)


class WatchedRates:
    """The learning rates of one script. `groups` are its optimizers' hyper-parameters."""

    def __init__(self, groups: Callable[[], Sequence[Mapping[str, Any]]]) -> None:
        self._groups = groups
        self._before: list[float] | None = None
        self.is_named = False
        """The script has called worker.keep, or lets a population change its rates."""

    def begin(self) -> None:
        """The script begins a loop over epochs: the first, at its beginning or where a run is, counts."""
        if self._before is None:
            self._before = self._now()

    def unnamed(self) -> str:
        """Why a script that is begun elsewhere would have other rates; empty if it would not."""
        return "" if self.is_named or self._before in (None, self._now()) else UNNAMED

    def _now(self) -> list[float]:
        return [float(group["lr"]) for group in self._groups() if "lr" in group]
