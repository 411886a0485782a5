"""Hyper-parameters that a script lets a population change, each within its range."""

from collections.abc import Mapping, MutableMapping, Sequence
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import ConfigError, did_you_mean
from weft.core.names import Bucket

Group = MutableMapping[str, Any]
"""Hyper-parameters by name: a group of a torch optimizer, or the fields of a rule."""


class Tuned(NamedTuple):
    """One hyper-parameter of one group, and its range."""

    group: Group
    name: str
    low: float
    high: float

    @property
    def value(self) -> float:
        return float(self.group[self.name])

    def set(self, value: float) -> None:
        """Set the number; a tensor, which some optimizers want for a learning rate, is filled in place."""
        before = self.group[self.name]
        if hasattr(before, "fill_"):
            before.fill_(value)
        else:
            self.group[self.name] = value

    def within(self, value: float) -> float:
        """The nearest number of the range; NaN gives the current value."""
        return min(max(value, self.low), self.high) if value == value else self.value


class Tuning:
    """The hyper-parameters that `worker.tune` declared: one number for each name in each group that has it.

    `values` is the memory in which strategies read and change these numbers. `give` copies there what the script (a
    scheduler, say) has changed, before a strategy may read it; `take` copies back what the strategy has changed. The
    last change wins.
    """

    def __init__(self, groups: Sequence[Group], ranges: Mapping[str, tuple[float, float]]) -> None:
        if not ranges:
            raise ConfigError("worker.tune() was given nothing to tune.\n  Write e.g. worker.tune(lr=(1e-4, 1e-1)).")
        known = {name for group in groups for name, value in group.items() if _is_number(value)}
        for name, limits in ranges.items():
            if name not in known:
                raise ConfigError(
                    f"worker.tune({name}=...) names no number of the optimizer.\n  {did_you_mean(name, known)}"
                )
            _check_range(name, limits)
        self._tuned = [
            Tuned(group, name, float(low), float(high))
            for name, (low, high) in ranges.items()
            for group in groups
            if name in group
        ]
        self.values: NDArray[np.float64] | None = None
        self._known: list[float] = []
        """The numbers as they were when script and strategy last agreed."""

    def lines(self) -> list[str]:
        """One line for each number, for comparison between workers."""
        return [f"{tuned.name} from {tuned.low:g} to {tuned.high:g}" for tuned in self._tuned]

    def share(self) -> tuple[Bucket, NDArray[np.float64]]:
        """Make the numbers a bucket that strategies can read and change; the bucket and its memory."""
        self._known = [tuned.value for tuned in self._tuned]
        self.values = np.array([tuned.within(tuned.value) for tuned in self._tuned])
        return Bucket(len(self.values), self.values.itemsize, trainable=False, tuned=True), self.values

    def give(self) -> None:
        """Copy what the script has changed to `values`."""
        if self.values is None:
            return
        for index, tuned in enumerate(self._tuned):
            if tuned.value != self._known[index]:
                self.values[index] = self._known[index] = tuned.value

    def take(self) -> None:
        """Copy what strategies have changed to the optimizer, clipped to its range."""
        if self.values is None:
            return
        for index, tuned in enumerate(self._tuned):
            if self.values[index] != self._known[index]:
                self.values[index] = self._known[index] = tuned.within(float(self.values[index]))
                tuned.set(self._known[index])


def _is_number(value: Any) -> bool:
    return (isinstance(value, int | float) and not isinstance(value, bool)) or getattr(value, "shape", None) == ()


def _check_range(name: str, limits: Any) -> None:
    if not isinstance(limits, tuple | list) or len(limits) != 2 or not all(isinstance(n, int | float) for n in limits):
        raise ConfigError(
            f"worker.tune({name}={limits!r}) wants a range of two numbers.\n  Write e.g. worker.tune({name}=(0.01, 1))."
        )
    low, high = limits
    if not 0 < low < high < inf:
        raise ConfigError(
            f"worker.tune({name}=({low:g}, {high:g})) is no range of numbers above 0, the smaller one first.\n"
            f"  Write e.g. worker.tune({name}=(0.01, 1)); a population multiplies by factors, which leave 0 as it is."
        )
