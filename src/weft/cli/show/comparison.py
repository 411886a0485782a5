"""A comparison on the screen: a table of its contenders, and who won and why."""

from rich.markup import escape
from rich.table import Table

from weft.cli.show.screen import screen
from weft.observe.records.comparison import Comparison
from weft.observe.report import verdict
from weft.observe.report.figures import standings
from weft.observe.report.summary import cells, excuse, headings
from weft.observe.report.words import counted

MEASURED = 3
"""So many columns say how fast; those after them, what was learned and what it took."""

NARROW = 100
"""A narrower screen gets two tables."""


def show_comparison(comparison: Comparison) -> None:
    """The fastest first, failed ones last with the first line of their error; then the two sentences."""
    names = headings(standings(comparison), comparison)
    columns = range(len(names) - 1)
    groups = [columns] if screen.width >= NARROW else [columns[:MEASURED], columns[MEASURED:]]
    for group in groups:
        screen.print(_table(comparison, group))
    for row in standings(comparison).rows:
        why = excuse(row)
        if why is not None:
            screen.print(f"{row.label} {why}", markup=False)
    screen.print(verdict(comparison), markup=False)


def _table(comparison: Comparison, columns: range) -> Table:
    setup, figures = comparison.setup, standings(comparison)
    first, *others = headings(figures, comparison)
    kind = f"simulated on '{setup.cluster}'" if setup.is_simulated else "real runs"
    asked = f"{counted(setup.workers, 'worker')}, {counted(len(setup.seeds), 'seed')}"
    drawn = Table(title=escape(f"{setup.script}, {asked}, {kind}"))
    drawn.add_column(first, overflow="fold")
    for i in columns:
        drawn.add_column(_folded(others[i]), justify="right")
    for row in figures.rows:
        if excuse(row) is not None:
            drawn.add_row(escape(row.label), "failed" if row.error is not None else "not run yet")
            continue
        said = cells(row, figures)
        name = f"{row.label} (baseline)" if row.is_baseline else row.label
        texts = [f"{text}\n{small}" if small else text for text, small in said]
        drawn.add_row(escape(name), *(escape(texts[i]) for i in columns))
    return drawn


def _folded(heading: str) -> str:
    """A long heading in two lines."""
    words = heading.split(" ")
    half = len(words) // 2
    return escape("\n".join(part for part in (" ".join(words[:half]), " ".join(words[half:])) if part))
