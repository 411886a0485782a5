"""The parts of a report that are lines over time: what was learned, the training loss, the consensus distance."""

from collections.abc import Callable
from statistics import median

from weft.core.score import sign
from weft.observe.records.comparison import ComparedRun, Comparison, Setup
from weft.observe.records.quantities import human_seconds
from weft.observe.report.figures import Standings, ranked
from weft.observe.report.lines import Curve, chart
from weft.observe.report.markup import Markup
from weft.observe.report.scales import Scale, scale_of, time_scale
from weft.observe.report.sections import pictured
from weft.observe.report.series import Line, mean_line, reported, training_loss
from weft.observe.report.words import listed, number, seconds_of

DOTS_MAX = 40
"""Lines with more points have no dots."""


def curves_of(
    comparison: Comparison, table: Standings, looks: dict[str, str], line_of: Callable[[ComparedRun], Line]
) -> list[Curve]:
    """One for each contender that has any point, in the order of the table."""
    found = []
    for each in ranked(comparison, table):
        seeds = [line_of(run) for run in each.runs]
        mean = mean_line(seeds)
        if mean:
            found.append(Curve(each.label, looks[each.label], mean, seeds, len(mean) <= DOTS_MAX))
    return found


def _drawn(name: str, setup: Setup, curves: list[Curve], y: Scale, goal: tuple[float, str] | None = None) -> Markup:
    end_s = max(at for curve in curves for line in (curve.mean, *curve.seeds) for at, _ in line)
    return chart(name, seconds_of(setup), curves, time_scale(end_s), y, goal)


def _values(curves: list[Curve]) -> list[float]:
    return [value for curve in curves for line in (curve.mean, *curve.seeds) for _, value in line]


def _lines_in_words(comparison: Comparison) -> str:
    return "; thick lines are means over the seeds, thin ones single seeds" if len(comparison.setup.seeds) > 1 else ""


def learned_section(comparison: Comparison, table: Standings, looks: dict[str, str]) -> Markup | None:
    """The number that counts over time."""
    name, target = table.measure, comparison.setup.target
    if name is None:
        return None
    curves = curves_of(comparison, table, looks, lambda run: reported(run, name))
    if not curves:
        return None
    goal = (target.value, f"target {target}") if target is not None else None
    values = _values(curves)
    better = "lower" if sign(name) > 0 else "higher"
    said = f"Further left is faster, {better} is better{_lines_in_words(comparison)}. "
    if target is None or not table.timed:
        best = min(curves, key=lambda curve: sign(name) * curve.mean[-1][1])
        said += f"Here {best.label} ends best, with {number(best.mean[-1][1])} after {human_seconds(best.mean[-1][0])}."
    else:
        got = [
            f"{row.label} after {human_seconds(row.time_s or 0.0)}"
            for row in dict.fromkeys((table.timed[0], table.timed[-1]))
        ]
        said += f"Here the target is reported as reached by {listed(got)}."
    y = scale_of(values, target.value if target is not None else None, may_be_log=sign(name) > 0)
    return pictured(
        f"{name[:1].upper()}{name[1:]} over time", _drawn(f"{name} over time", comparison.setup, curves, y, goal), said
    )


def loss_section(comparison: Comparison, table: Standings, looks: dict[str, str]) -> Markup | None:
    """The training loss over time."""
    curves = curves_of(comparison, table, looks, training_loss)
    if not curves:
        return None
    first_end = min(curve.mean[-1][0] for curve in curves)
    then = {curve.label: _value_at(curve.mean, first_end) for curve in curves}
    low, high = min(then, key=lambda label: then[label]), max(then, key=lambda label: then[label])
    said = f"Lower is better, smoothed over neighbouring steps{_lines_in_words(comparison)}."
    if len(curves) > 1:
        said += (
            f" When the first of them is done, after {human_seconds(first_end)}, "
            f"{low} is at {number(then[low])} and {high} at {number(then[high])}."
        )
    picture = _drawn("training loss over time", comparison.setup, curves, scale_of(_values(curves), may_be_log=True))
    return pictured("Training loss over time", picture, said)


def _value_at(line: Line, time_s: float) -> float:
    """The last value up to a time, or the first one."""
    return next((value for at, value in reversed(line) if at <= time_s * 1.0001), line[0][1])


def consensus_section(comparison: Comparison, table: Standings, looks: dict[str, str]) -> Markup | None:
    """How far the workers' models were apart; None if they never were, or nobody knows."""
    curves = curves_of(comparison, table, looks, lambda run: reported(run, "consensus"))
    apart = [curve for curve in curves if any(value > 0 for _, value in curve.mean)]
    if not apart:
        return None
    equal = [curve.label for curve in curves if curve not in apart]
    known = {curve.label for curve in curves}
    unknown = [each.label for each in ranked(comparison, table) if each.label not in known]
    far = max(apart, key=lambda curve: median(value for _, value in curve.mean))
    said = (
        "How far the models of the workers are from their mean: the lower, the more they agree. Here the furthest "
        f"apart are those of {far.label}, {number(far.mean[-1][1])} at the end."
    )
    said += f" Always 0, because all workers have the same model: {listed(equal)}." if equal else ""
    said += f" Not known of {listed(unknown)}." if unknown else ""
    y = scale_of(_values(apart), may_be_log=True)
    return pictured(
        "Consensus distance over time", _drawn("consensus distance over time", comparison.setup, apart, y), said
    )
