"""Outcomes of runs on the screen: one table for all strategies, and what it says in words."""

from collections.abc import Callable
from typing import Any

from rich.table import Table

from weft.cli.screen import human_bytes, human_seconds, screen
from weft.engines.outcome import Outcome

WIDE = 112
"""A terminal of this width shows everything in one table; a narrower one gets two."""

CLOSE = 1.05
"""Times that differ by less are about the same."""

Row = dict[str, Any]
Column = tuple[str, Callable[[Row], str]]

TIMES: list[Column] = [
    ("virtual\ntime", lambda row: human_seconds(row["virtual_s"])),
    ("samples/s", lambda row: f"{row['samples_per_s']:,.0f}"),
    ("bytes\nsent", lambda row: human_bytes(row["bytes_sent"])),
    ("time\nwaiting", lambda row: f"{100 * abs(row['waiting_fraction']):.0f} %"),
]
AGES: list[Column] = [
    ("staleness\nmean / max", lambda row: f"{row['staleness_mean']:.1f} / {row['staleness_max']:.0f}")
]
DISTANCE: list[Column] = [
    ("consensus\ndistance", lambda row: _told(row["consensus"], ".1e") if row["consensus"] != 0 else "0")
]


def show_outcomes(outcomes: list[Outcome]) -> None:
    """A row for each strategy; then the traces, which repeat with the seed."""
    rows = [outcome.to_json() for outcome in outcomes]
    is_dry = outcomes[0].arrays is None
    names = list(dict.fromkeys(name for row in rows for name in row["final"]))
    learned = [] if is_dry else [_reported(name) for name in names]
    rest = AGES if is_dry else AGES + DISTANCE
    first = rows[0]
    title = f"{first['workers']} simulated workers, {first['samples']:,.0f} samples, seed {first['seed']}"
    if screen.width >= WIDE or is_dry:
        screen.print(_table(title, rows, TIMES[:2] + learned + TIMES[2:] + rest))
    else:
        screen.print(_table(title, rows, TIMES))
        screen.print(_table("what was learned", rows, learned + rest))
    if len(rows) > 1:
        screen.print(in_words(rows), markup=False)
    screen.print("Traces, the same for the same seed:", markup=False)
    for row in rows:
        screen.print(f"  {row['trace']}  {row['strategy']}", markup=False)


def _reported(name: str) -> Column:
    return name, lambda row: _told(row["final"][name], ".4f") if name in row["final"] else ""


def _told(value: float | None, form: str) -> str:
    """A number, or that it is none: training that diverged ends in what is not finite."""
    return "diverged" if value is None else format(value, form)


def _table(title: str, rows: list[Row], columns: list[Column]) -> Table:
    table = Table(title=title)
    table.add_column("strategy", no_wrap=True)
    for name, _ in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(row["strategy"], *(cell(row) for _, cell in columns))
    return table


def in_words(rows: list[Row]) -> str:
    """Who was fastest and, where accuracy was reported, who learned most."""
    fastest = min(rows, key=lambda row: row["virtual_s"])
    slowest = max(rows, key=lambda row: row["virtual_s"])
    words = "All trained on the same samples. "
    if slowest["virtual_s"] < CLOSE * fastest["virtual_s"]:
        words += f"All took about as long ({human_seconds(fastest['virtual_s'])})."
    else:
        words += (
            f"Fastest: {fastest['strategy']}, {human_seconds(fastest['virtual_s'])}; "
            f"slowest: {slowest['strategy']}, {human_seconds(slowest['virtual_s'])} "
            f"({slowest['virtual_s'] / fastest['virtual_s']:.1f} times as long)."
        )
    scored = [row for row in rows if row["final"].get("accuracy") is not None]
    if scored:
        best = max(scored, key=lambda row: row["final"]["accuracy"])
        words += f" Most accurate: {best['strategy']}, {best['final']['accuracy']:.4f}."
        good = [row for row in scored if row["final"]["accuracy"] >= best["final"]["accuracy"] - 0.02]
        quick = min(good, key=lambda row: row["virtual_s"])
        if quick is not best:
            words += (
                f" Within 2 points of it and quickest: {quick['strategy']}, "
                f"{quick['final']['accuracy']:.4f} in {human_seconds(quick['virtual_s'])}."
            )
    return words
