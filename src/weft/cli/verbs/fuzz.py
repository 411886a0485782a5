"""weft fuzz: random worlds with faults for every strategy, audited."""

import time
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from weft.cli.show.screen import errors, screen
from weft.config.registry import STRATEGIES
from weft.config.registry import strategy as strategy_of
from weft.core.errors import ConfigError
from weft.fuzz.campaign import Coverage, Verdict, campaign
from weft.fuzz.evidence import AUDITOR
from weft.fuzz.scenario import Scenario, draw
from weft.fuzz.shrinking import breaks, shrink

SHRUNK_MAX = 3
"""Failures that are made small; the others are listed as they are."""

PROGRESS_S = 5.0
"""How often a campaign says how far it is."""


def fuzz(
    seeds: Annotated[int, typer.Option("--seeds", help="How many seeds.")] = 1000,
    first: Annotated[int, typer.Option("--first", help="The first seed.")] = 0,
    strategy: Annotated[
        str | None, typer.Option("--strategy", "-s", help="Only this one, by its name or call.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="How many processes.")] = 2,
) -> None:
    """Run random worlds in which things go wrong, and audit what every strategy promises."""
    for name, value in (("seeds", seeds), ("jobs", jobs)):
        if value < 1:
            raise ConfigError(f"--{name} is {value}, but it is at least 1.\n  Use --{name} 1.")
    if strategy is not None:
        strategy_of(strategy)
    names = tuple(STRATEGIES) if strategy is None else (strategy,)
    coverage = Coverage()
    progress = CampaignProgress(coverage, seeds, strategy)
    try:
        campaign(coverage, range(first, first + seeds), names, jobs, progress.show)
    except KeyboardInterrupt:
        screen.print(f"interrupted after {coverage.num_seeds} of {seeds} seeds; this is what they showed:")
        raise
    finally:
        _show_coverage(coverage, progress.seconds)
    for verdict in coverage.failures[:SHRUNK_MAX]:
        screen.print(_made_small(verdict, names, strategy), markup=False, soft_wrap=True)
    if coverage.failures:
        raise typer.Exit(1)


class CampaignProgress:
    """Shows what a campaign finds at once and, every few seconds, how far it is."""

    def __init__(self, coverage: Coverage, num_seeds: int, strategy: str | None) -> None:
        self._coverage, self._num_seeds, self._strategy = coverage, num_seeds, strategy
        self._began = self._shown = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Since the campaign began."""
        return time.perf_counter() - self._began

    def show(self, verdict: Verdict) -> None:
        for violation in verdict.violations[:1]:
            broken = "" if violation.invariant == AUDITOR else f"invariant {violation.invariant}: "
            what = escape(f"{verdict.strategy}: {broken}{violation.what.splitlines()[0]}")
            screen.print(f"[bold red]seed {verdict.seed}[/] {what}", soft_wrap=True)
            screen.print(f"  {_command(verdict.seed, self._strategy)}", markup=False)
        now = time.perf_counter()
        if now - self._shown >= PROGRESS_S:
            self._shown = now
            done, found = self._coverage.num_seeds, len(self._coverage.failures)
            errors.print(f"{done} of {self._num_seeds} seeds in {self.seconds:.0f} s, {found} found")


def _made_small(verdict: Verdict, names: Sequence[str], strategy: str | None) -> str:
    """The command that shows a small run that fails alike; of the whole seed, if anything goes wrong on the way."""
    try:
        scenario = draw(verdict.seed, names)
        small = shrink(scenario, breaks(verdict.violations[0].invariant))
        return f"seed {verdict.seed}, made small: {_replay(scenario, small, strategy)}"
    except Exception as error:
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        return f"seed {verdict.seed} cannot be made small ({why}): {_command(verdict.seed, strategy)}"


def _show_coverage(coverage: Coverage, seconds: float) -> None:
    title = f"{coverage.num_seeds} seeds in {seconds:.1f} s"
    table = Table("strategy", "seeds", "codec", "seeds ", "fault", "seeds  ", title=title)
    counted = [sorted(counts.items()) for counts in (coverage.strategies, coverage.codecs, coverage.faults)]
    for row in range(max(map(len, counted))):
        cells = [cell for counts in counted for cell in (counts[row] if row < len(counts) else ("", ""))]
        table.add_row(*map(str, cells))
    screen.print(table)
    broken = f"{len(coverage.failures)} seeds broke an invariant" if coverage.failures else "no invariant was broken"
    screen.print(f"median events of a seed: {coverage.median_events:,.0f}; {broken}")


def _command(seed: int, strategy: str | None) -> str:
    """The command that shows a seed."""
    return f"weft replay {seed}" + ("" if strategy is None else f" --strategy '{strategy}'")


def _replay(scenario: Scenario, small: Scenario, strategy: str | None) -> str:
    """The command that shows a small failing run."""
    kept = [str(i) for i, fault in enumerate(scenario.faults.schedule) if fault in small.faults.schedule]
    command = _command(scenario.seed, strategy)
    if len(kept) < len(scenario.faults.schedule):
        command += f" --faults {','.join(kept) or 'none'}"
    return command if small.num_steps == scenario.num_steps else f"{command} --steps {small.num_steps}"
