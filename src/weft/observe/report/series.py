"""The lines of a chart: thinned to what can be seen, and the mean of several seeds."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import isfinite
from statistics import fmean

from weft.observe.records.comparison import ComparedRun

Point = tuple[float, float]
Line = list[Point]

POINTS_MAX = 80
"""A line has no more points: a screen shows no more, and pages stay small."""


def reported(run: ComparedRun, name: str) -> Line:
    """A reported number over time."""
    return _points(run.reports, name)


def training_loss(run: ComparedRun) -> Line:
    """The training loss over time, smoothed to as many points as can be seen."""
    return thinned(_points(run.curve, "loss"))


def _points(rows: Sequence[Mapping[str, float | None]], name: str) -> Line:
    pairs = ((row.get("at_s"), row.get(name)) for row in rows)
    return [(at, value) for at, value in pairs if at is not None and value is not None and isfinite(value)]


def thinned(line: Line) -> Line:
    """Means of neighbours, at most POINTS_MAX of them; the last point stays the last."""
    if len(line) <= POINTS_MAX:
        return line
    cuts = [round(i * len(line) / POINTS_MAX) for i in range(POINTS_MAX + 1)]
    groups = [line[begin:end] for begin, end in pairwise(cuts)]
    means = [(fmean(at for at, _ in group), fmean(value for _, value in group)) for group in groups]
    return [*means[:-1], (line[-1][0], means[-1][1])]


def mean_line(lines: Sequence[Line]) -> Line:
    """The mean of several runs at equal progress: runs of one contender have the same samples, not the same times."""
    lines = [line for line in lines if line]
    if not lines:
        return []
    num_points = max(map(len, lines))
    at = [[_at(line, i / max(1, num_points - 1)) for line in lines] for i in range(num_points)]
    return [(fmean(time for time, _ in points), fmean(value for _, value in points)) for points in at]


def _at(line: Line, progress: float) -> Point:
    """The point at a part of a line, between two of its points if need be."""
    place = progress * (len(line) - 1)
    before = min(int(place), len(line) - 1)
    after, part = min(before + 1, len(line) - 1), place - before
    (t0, v0), (t1, v1) = line[before], line[after]
    return t0 + part * (t1 - t0), v0 + part * (v1 - v0)
