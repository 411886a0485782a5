"""From numbers to places on a chart, and the round numbers that stand at its edges."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, floor, log10

TICKS = 5
"""About so many round numbers at an edge: they fit on a telephone, too."""

DECADES = 1.3
"""Positive numbers that span more powers of ten are shown by their logarithm."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Where numbers between two ends stand, from 0 to 1."""

    low: float
    high: float
    is_log: bool = False

    def place(self, value: float) -> float:
        """0 is the low end, 1 the high one; what lies beyond an end stands at it."""
        low, high = self.low, self.high
        if self.is_log:
            low, high, value = log10(low), log10(high), log10(max(value, low))
        return min(1.0, max(0.0, (value - low) / (high - low)))

    def ticks(self) -> list[float]:
        """Round numbers between the ends, about as many as fit."""
        if self.is_log:
            first, last = ceil(log10(self.low) - 1e-9), floor(log10(self.high) + 1e-9)
            each = max(1, ceil((last - first + 1) / TICKS))
            powers = [10.0**power for power in range(first, last + 1, each)]
            return powers if len(powers) > 1 else [self.low, self.high]
        step = _round_step((self.high - self.low) / TICKS)
        first, last = ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9)
        return [round(i * step, 12) for i in range(first, last + 1)]


def time_scale(end_s: float) -> Scale:
    """From 0 to the end of the last run."""
    return Scale(0.0, end_s if end_s > 0 else 1.0)


def scale_of(values: Iterable[float], include: float | None = None, may_be_log: bool = False) -> Scale:
    """A scale on which all of these can be seen, `include` among them, with some air around them."""
    numbers = [*values, *([] if include is None else [include])]
    low, high = min(numbers), max(numbers)
    if may_be_log and low > 0 and log10(high / low) > DECADES:
        return Scale(low / 1.1, high * 1.1, True)
    air = 0.05 * (high - low) or 0.05 * abs(high) or 0.5
    return Scale(max(0.0, low - air) if low >= 0 else low - air, high + air)


def _round_step(step: float) -> float:
    """1, 2 or 5 times a power of ten, not below `step`."""
    power = 10.0 ** floor(log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * 0.999)


def label(value: float) -> str:
    """A number at an edge: '0.5', '20', '1e-3'."""
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")
    return f"{value:.6g}" if abs(value) < 1000 else f"{value:,.0f}"
