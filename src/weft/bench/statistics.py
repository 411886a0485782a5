"""Medians with bootstrap bounds, and ratios of blocks that were measured in the same round."""

from collections.abc import Sequence
from random import Random
from statistics import median
from typing import NamedTuple

BOOTSTRAPS = 1000


class Interval(NamedTuple):
    """A median and the 95 % interval that it lies in."""

    median: float
    low: float
    high: float


def interval(values: Sequence[float]) -> Interval:
    """The median with its bootstrap 95 % bounds; the same values give the same bounds."""
    rng = Random(0)
    medians = sorted(median(rng.choices(values, k=len(values))) for _ in range(BOOTSTRAPS))
    return Interval(median(values), medians[BOOTSTRAPS * 25 // 1000], medians[BOOTSTRAPS * 975 // 1000 - 1])


def paired_ratio(others_s: Sequence[float], own_s: Sequence[float]) -> Interval:
    """How much longer the other takes, round by round: a slow spell of the machine slows both and cancels."""
    return interval([other / own for other, own in zip(others_s, own_s, strict=True)])
