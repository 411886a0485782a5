"""A comparison in two sentences: who won, and why."""

from collections.abc import Sequence

from weft.core.score import sign
from weft.observe.records.comparison import Comparison, Setup, Target
from weft.observe.records.quantities import human_bytes, human_seconds
from weft.observe.report.figures import CLOSE, Figures, Standings, standings

NAMED_MAX = 3
"""So many of several equals are named, the others are counted."""

POINTS = 0.05
"""Shares of time that differ by less are about the same."""

ALIKE = 0.002
"""Reported numbers that differ by a smaller part are about the same."""

BYTES_TIMES = 1.5
"""Traffic that differs by less is not worth a word."""


def verdict(comparison: Comparison) -> str:
    """Two sentences that a careful engineer would stand for: ties are called ties, and losses losses."""
    table, target = standings(comparison), comparison.setup.target
    if not table.standing:
        return _nobody_ran(table)
    if target is None and not table.timed:
        return _all_diverged(table)
    if target is not None and not table.timed:
        return f"{_nobody_reached(table, target)} {_without_target_reached(table)}"
    return f"{_who_won(table, target)} {_why(table)}"


def listed(words: Sequence[str]) -> str:
    """'a', 'a and b', 'a, b and c'; of many, the first ones and how many more."""
    if len(words) > NAMED_MAX:
        words = [*words[: NAMED_MAX - 1], f"{len(words) - NAMED_MAX + 1} more"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def counted(count: int, noun: str) -> str:
    """'1 worker', '4 workers'."""
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"


def times(factor: float) -> str:
    """'2.4 times', '12 times'."""
    return f"{factor:.1f} times" if factor < 10 else f"{factor:.0f} times"


def number(value: float) -> str:
    """A reported number, as precise as its reader can use."""
    return f"{value:.4f}" if 0.001 <= abs(value) < 10 else f"{value:.4g}"


def percent(share: float) -> str:
    """'61 %'."""
    return f"{100 * abs(share):.0f} %"


def kind_in_words(setup: Setup) -> str:
    """Whether figures were measured or computed."""
    return f"Simulated on the cluster '{setup.cluster}'" if setup.is_simulated else "Measured in real runs"


def seconds_of(setup: Setup) -> str:
    """What the times of a comparison are in."""
    return "virtual seconds" if setup.is_simulated else "seconds"


def target_in_words(target: Target) -> str:
    """'accuracy 0.97'."""
    return f"{target.name} {target.value:g}"


def seeds_in_words(used: int, of: int, low: str, high: str) -> str:
    """' (1.2 s to 1.4 s over 3 seeds)', with as many seeds as have a figure; nothing if there was one seed."""
    if of == 1:
        return ""
    seeds = f"{used} seeds" if used == of else f"{used} of {of} seeds"
    return f" ({low} to {high} over {seeds})" if used > 1 else f" (with {seeds})"


def diverged_in_words(row: Figures) -> str:
    """'2 of 3 seeds diverged', or nothing."""
    return f"{row.num_diverged} of {row.num_runs} seeds diverged" if row.num_diverged and row.num_runs > 1 else ""


def _basis(table: Standings) -> str:
    """How little a verdict rests upon: ' in simulation', ' with one seed'."""
    few = " with one seed" if all(row.num_runs == 1 for row in table.standing) else ""
    return (" in simulation" if table.is_simulated else "") + few


def _begin(sentence: str) -> str:
    """A sentence about the baseline begins with a capital; a contender keeps the name that can be typed."""
    return f"T{sentence[1:]}" if sentence.startswith("the ") else sentence


def _nobody_ran(table: Standings) -> str:
    failed = [row for row in table.rows if row.error is not None]
    if not failed:
        return "No contender has run yet. There is nothing to compare."
    return f"Nobody won: {listed([row.name for row in failed])} failed. The first error was: {failed[0].error}"


def _all_diverged(table: Standings) -> str:
    advice = "a smaller learning rate, or a longer warm-up, may help"
    said = f"Nobody won{_basis(table)}: {_unsteady(table)}"
    return f"{said}. How long runs took that did not learn means nothing; {advice}{_failed(table)}."


def _nobody_reached(table: Standings, target: Target) -> str:
    best, *others = table.standing
    partly = " with every seed" if any(row.num_reached for row in table.standing) else ""
    said = f"Nobody reached {target_in_words(target)}{partly}{_basis(table)}"
    if best.final is None or best.finals is None:
        return f"{said}, and no run ended with a finite {target.name}."
    close = [row for row in others if _overlap(best, row)]
    ended = number(best.final) + seeds_in_words(best.num_finals, best.num_runs, *map(number, best.finals))
    if close:
        return f"{said}: {listed([row.name for row in (best, *close)])} came about as close, {best.label} with {ended}."
    if others and others[0].final is not None:
        ended += f", ahead of {others[0].name} with {number(others[0].final)}"
    return f"{said}: {best.name} came closest with {ended}."


def _overlap(one: Figures, other: Figures) -> bool:
    """Whether what two reported last cannot be told apart."""
    if one.finals is None or other.finals is None or one.final is None or other.final is None:
        return False
    overlap = one.finals[0] <= other.finals[1] and other.finals[0] <= one.finals[1]
    return overlap or abs(one.final - other.final) < ALIKE * abs(one.final)


def _without_target_reached(table: Standings) -> str:
    """What can be said when nobody got there: who took how long for the same samples."""
    rows = sorted(table.standing, key=lambda row: row.seconds or 0.0)
    took = listed([f"{row.name} {human_seconds(row.seconds or 0.0)}" for row in dict.fromkeys((rows[0], rows[-1]))])
    advice = "more epochs, or an easier target, would tell who gets there first"
    return f"The same samples took {took}; {advice}{_lost(table)}."


def _who_won(table: Standings, target: Target | None) -> str:
    first, *others = table.timed
    did = "trained on all samples" if target is None else f"reached {target_in_words(target)}"
    took, num_runs, basis = _duration(first), first.num_runs, _basis(table)
    took += seeds_in_words(num_runs, num_runs, *map(human_seconds, first.times_s)) if first.times_s else ""
    took += basis
    reference = table.reference
    if reference is None:
        well = "" if table.has_target or len(table.standing) == 1 else " without diverging"
        return _begin(f"{first.name} is the only one that {did}{well}, in {took}.")
    equals = [row for row in others if table.are_equal(first, row)]
    if equals and (len(equals) == len(others) or reference in (first, *equals)):
        all_took = listed([f"{row.name} ({_duration(row)})" for row in (first, *equals)])
        behind = [row for row in others if row not in equals]
        rest = f", ahead of {_behind(behind[0], first)}" if behind else ""
        return _begin(f"{all_took} {did} about as fast{basis}{rest}.")
    if first.is_baseline:
        return f"The baseline {first.label} won: it {did} in {took}; next came {_behind(others[0], first)}."
    ahead = f"{times(table.speedup(first) or 1.0)} as fast as {reference.name} ({_duration(reference)})"
    if equals:
        tied = listed([row.name for row in (first, *equals)])
        return f"{tied} {did} first, about as fast as each other: {first.label} in {took}, {ahead}."
    return f"{first.label} won: it {did} in {took}, {ahead}."


def _behind(row: Figures, first: Figures) -> str:
    return f"{row.name} ({_duration(row)}, {times((row.time_s or 0.0) / (first.time_s or 1.0))} as long)"


def _duration(row: Figures) -> str:
    return human_seconds(row.time_s or 0.0)


def _why(table: Standings) -> str:
    """What the winner did otherwise than the one it is compared with: advantages first, then what it paid."""
    first, reference = table.timed[0], table.reference
    if reference is None:
        rest = [row for row in table.standing[1:] if row.final is not None and not row.num_diverged]
        ended = [f"{row.name} ended with {number(row.final or 0.0)}" for row in rest]
        return _begin(f"{listed(ended) if ended else 'There is nobody to compare it with'}{_lost(table)}.")
    other = table.timed[1] if first is reference else reference
    pros, cons = _differences(first, other, table.has_target)
    who = first.label if table.are_equal(first, table.timed[1]) else "it"
    if pros or cons:
        although = f", although it {_in_a_row(cons)}" if pros and cons else ""
        said = f"Compared with {other.label}, {who} {_in_a_row(pros or cons)}{although}"
    else:
        said = f"In waiting, pace, samples needed and traffic {first.label} and {other.label} hardly differ"
    return said + _learned(table, first) + _outrun(table) + _lost(table) + "."


def _in_a_row(clauses: Sequence[str]) -> str:
    """All of them, none counted."""
    return " and ".join(part for part in (", ".join(clauses[:-1]), clauses[-1]) if part)


def _differences(first: Figures, other: Figures, has_target: bool) -> tuple[list[str], list[str]]:
    """What speaks for the first and what against it, as what it did."""
    pros: list[str] = []
    cons: list[str] = []
    if first.waiting is not None and other.waiting is None:
        pros.append(f"waited {percent(first.waiting)} of the time (of {other.label} it is not known)")
    elif first.waiting is not None and other.waiting is not None and abs(first.waiting - other.waiting) >= POINTS:
        said = f"waited {percent(first.waiting)} of the time rather than {percent(other.waiting)}"
        (pros if first.waiting < other.waiting else cons).append(said)
    mine, theirs = _pace(first, has_target), _pace(other, has_target)
    if mine and theirs and max(mine, theirs) >= CLOSE * min(mine, theirs):
        until = " on the way" if has_target else ""
        said = f"trained on {mine:,.0f} samples/s{until} rather than {theirs:,.0f}"
        (pros if mine > theirs else cons).append(said)
    if has_target and first.samples_to_target and other.samples_to_target:
        needed = first.samples_to_target / other.samples_to_target
        if needed >= CLOSE:
            cons.append(f"needed {needed:.2g} times as many samples")
        elif needed <= 1 / CLOSE:
            pros.append(f"needed only {percent(needed)} of the samples")
    sent, theirs_sent = first.bytes_per_worker, other.bytes_per_worker
    if sent is not None and theirs_sent is not None and max(sent, theirs_sent) > BYTES_TIMES * min(sent, theirs_sent):
        said = f"sent {human_bytes(sent)} per worker rather than {human_bytes(theirs_sent)}"
        (pros if sent < theirs_sent else cons).append(said)
    return pros, cons


def _pace(row: Figures, has_target: bool) -> float | None:
    """Samples per second, up to the target if there is one and it is known when it was reached."""
    if has_target and row.samples_to_target and row.time_s:
        return row.samples_to_target / row.time_s
    return row.samples_per_s


def _learned(table: Standings, first: Figures) -> str:
    """Without a target speed is half of the story: what the fastest ended with, and who ended best."""
    scored = [row for row in table.timed if row.final is not None]
    if table.has_target or table.measure is None or first.final is None:
        return ""
    better = sign(table.measure)
    best = min(scored, key=lambda row: better * (row.final or 0.0))
    said = f"; {first.label} ended with {table.measure} {number(first.final)}"
    alike = [row.name for row in scored if row is not first and _overlap(first, row)]
    if best is not first and not _overlap(first, best):
        return f"{said}, {best.name} with {number(best.final or 0.0)}"
    return f"{said}, about the same as {listed(alike)}" if alike else f"{said}, the best of all"


def _outrun(table: Standings) -> str:
    """Baselines that never got to a target that others reached."""
    late = [row for row in table.standing if row.is_baseline and row.time_s is None and table.has_target]
    with_some = [
        f"{row.name} reached it with {row.num_reached} of {row.num_runs} seeds" for row in late if row.num_reached
    ]
    never = [row.name for row in late if not row.num_reached]
    return "".join(f"; {said}" for said in with_some) + (f"; {listed(never)} never reached it" if never else "")


def _lost(table: Standings) -> str:
    """Who diverged and who failed, at the end of the last sentence."""
    unsteady = _unsteady(table)
    return (f"; {unsteady}" if unsteady else "") + _failed(table)


def _unsteady(table: Standings) -> str:
    """Who diverged, and with how many seeds."""
    wholly = [row.name for row in table.standing if row.num_diverged == row.num_runs]
    partly = [row for row in table.standing if 0 < row.num_diverged < row.num_runs]
    said = [f"{listed(wholly)} diverged"] if wholly else []
    said += [f"of {row.name} {diverged_in_words(row)}" for row in partly]
    return ", ".join(said)


def _failed(table: Standings) -> str:
    failed = [row.name for row in table.rows if row.error is not None]
    return f"; {listed(failed)} failed" if failed else ""
