"""The figures of a comparison, one record for each contender, in the order in which they won."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from weft.core.score import sign
from weft.observe.records.comparison import ComparedRun, Comparison, Contender, spread

CLOSE = 1.05
"""Times that differ by less are about the same, however many seeds say so."""

CLOSE_OF_FEW, FEW_SEEDS = 1.2, 3
"""The same with fewer seeds than that: machines vary by 10 to 20 %."""

CLOSE_IN_SIMULATION = 1.15
"""The same if times are virtual: simulations are held to within 15 % of what is measured."""


@dataclass(frozen=True, slots=True)
class Figures:
    """One contender. None is what is not known, or never happened."""

    label: str
    is_baseline: bool
    num_runs: int
    num_reached: int
    time_s: float | None
    """The median time to the target; without a target, of the whole run."""
    times_s: tuple[float, float] | None
    seconds: float | None
    samples_per_s: float | None
    samples_to_target: float | None
    final: float | None
    """The mean of what was reported last."""
    finals: tuple[float, float] | None
    num_finals: int
    """How many runs reported one that is finite."""
    num_diverged: int
    """How many runs ended with a loss, or a number that counts, that is not finite."""
    bytes_per_worker: float | None
    waiting: float | None
    error: str | None
    """The first line of it."""

    @property
    def name(self) -> str:
        """As a sentence names it."""
        return f"the baseline {self.label}" if self.is_baseline else self.label


@dataclass(frozen=True, slots=True)
class Standings:
    """All contenders: by time, then those that did not get there by what they reported last, failed ones at the end.

    Without a target the time is that of the whole run, and one that diverged has none: it cannot win by being fast.
    """

    rows: tuple[Figures, ...]
    measure: str | None
    """The reported number that counts: the target's, else the first that is no loss."""
    has_target: bool
    is_simulated: bool

    @property
    def timed(self) -> list[Figures]:
        """Those with a time, fastest first."""
        return [row for row in self.rows if row.time_s is not None]

    @property
    def standing(self) -> list[Figures]:
        """Those that have run."""
        return [row for row in self.rows if row.num_runs and row.error is None]

    @property
    def reference(self) -> Figures | None:
        """Whom the others are compared with: the baseline, or the slowest if there is none with a time."""
        if len(self.timed) < 2:
            return None
        return next((row for row in self.timed if row.is_baseline), self.timed[-1])

    def are_equal(self, one: Figures, other: Figures) -> bool:
        """Whether two are about as fast: their seeds overlap, or their times differ by less than chance may do."""
        if one.time_s is None or other.time_s is None or one.times_s is None or other.times_s is None:
            return False
        num_runs = min(one.num_runs, other.num_runs)
        overlap = one.times_s[0] <= other.times_s[1] and other.times_s[0] <= one.times_s[1]
        limit = CLOSE_IN_SIMULATION if self.is_simulated else CLOSE if num_runs >= FEW_SEEDS else CLOSE_OF_FEW
        is_close = max(one.time_s, other.time_s) < limit * min(one.time_s, other.time_s)
        return is_close or (overlap and num_runs > 1)

    @property
    def winner(self) -> Figures | None:
        """The fastest, if nobody else is about as fast."""
        first = self.timed[0] if self.timed else None
        return None if first is None or any(self.are_equal(first, row) for row in self.timed[1:]) else first

    def speedup(self, row: Figures) -> float | None:
        """How many times as fast as the reference."""
        reference = self.reference
        if reference is None or reference.time_s is None or not row.time_s:
            return None
        return reference.time_s / row.time_s


def standings(comparison: Comparison) -> Standings:
    """The figures of all contenders, ranked."""
    measure, has_target = measure_of(comparison), comparison.setup.target is not None
    rows = [_figures(each, measure, has_target) for each in comparison.contenders]
    in_order = tuple(sorted(rows, key=lambda row: _rank(row, measure)))
    return Standings(in_order, measure, has_target, comparison.setup.is_simulated)


def ranked(comparison: Comparison, table: Standings) -> list[Contender]:
    """Those that have run, in the order of the table."""
    by_label = {each.label: each for each in comparison.standing()}
    return [by_label[row.label] for row in table.standing]


def measure_of(comparison: Comparison) -> str | None:
    """The name of the number that says how much was learned; None if no run reported any."""
    if comparison.setup.target is not None:
        return comparison.setup.target.name
    names = dict.fromkeys(name for each in comparison.standing() for run in each.runs for name in run.final)
    return next((name for name in names if name != "loss"), next(iter(names), None))


def _figures(contender: Contender, measure: str | None, has_target: bool) -> Figures:
    runs = contender.runs if contender.error is None else []
    times = contender.times() if has_target else [run.seconds for run in runs]
    num_diverged = sum(run.has_diverged("loss", *([] if measure is None else [measure])) for run in runs)
    is_timed = contender.reached if has_target else bool(runs) and not num_diverged
    finals = contender.finals(measure) if measure is not None and runs else []
    return Figures(
        label=contender.label,
        is_baseline=contender.is_baseline,
        num_runs=len(runs),
        num_reached=len(contender.times()) if runs else 0,
        time_s=median(times) if is_timed else None,
        times_s=spread(times) if is_timed else None,
        seconds=_middle(runs, lambda run: run.seconds),
        samples_per_s=_middle(runs, lambda run: run.samples_per_s),
        samples_to_target=_middle(runs, lambda run: run.samples_to_target),
        final=fmean(finals) if finals else None,
        finals=spread(finals) if finals else None,
        num_finals=len(finals),
        num_diverged=num_diverged,
        bytes_per_worker=_middle(runs, lambda run: run.bytes_per_worker),
        waiting=_middle(runs, lambda run: run.waiting),
        error=first_line(contender.error) if contender.error is not None else None,
    )


def _middle(runs: Sequence[ComparedRun], figure: Callable[[ComparedRun], float | None]) -> float | None:
    """The median of a figure that all runs have."""
    values = [value for value in map(figure, runs) if value is not None]
    return median(values) if values and len(values) == len(runs) else None


def _rank(row: Figures, measure: str | None) -> tuple[int, int, float]:
    if row.error is not None:
        return 3, 0, 0.0
    if not row.num_runs:
        return 2, 0, 0.0
    if row.time_s is not None:
        return 0, 0, row.time_s
    return 1, row.num_diverged, float("inf") if row.final is None or measure is None else sign(measure) * row.final


def first_line(text: str) -> str:
    """What an error says first; of an empty one, that it said nothing."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "it failed without a word")
