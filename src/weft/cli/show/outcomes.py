"""Outcomes of runs on the screen: one table for all strategies, and what it says in words."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from rich.markup import escape
from rich.table import Table

from weft.cli.show.screen import screen
from weft.engines.simulated.outcome import Outcome
from weft.observe.records.left_out import summary as left_out_in_words
from weft.observe.records.quantities import human_bytes, human_seconds

WIDE = 112
"""A terminal of this width shows everything in one table; a narrower one gets two."""

NAME_WIDTH_MIN = 14
"""A longer name is folded to this width before a column of numbers goes into a table of its own."""
FRAME = 3
"""What the line and the padding of a column take; a table has one line more."""

CLOSE = 1.05
"""Times that differ by less are about the same."""

Row = dict[str, Any]
Column = tuple[str, Callable[[Row], str]]

UNKNOWN = "-"
"""For what nobody has measured: the inner life of a baseline."""


def known(key: str, say: Callable[[Any], str]) -> Callable[[Row], str]:
    """A cell that says a value, or that it is not known."""
    return lambda row: UNKNOWN if row[key] is None else say(row[key])


PACE: Column = ("samples/s", lambda row: f"{row['samples_per_s']:,.0f}")
TRAFFIC: list[Column] = [
    ("bytes\nsent", known("bytes_sent", human_bytes)),
    ("time\nwaiting", known("waiting_fraction", lambda share: f"{100 * abs(share):.0f} %")),
]
AGE_MEAN = known("staleness_mean", lambda age: f"{age:.1f}")
AGE_MAX = known("staleness_max", lambda age: f"{age:.0f}")
AGES: list[Column] = [
    ("staleness\nmean / max", lambda row: f"{AGE_MEAN(row)} / {AGE_MAX(row)}"),
]
GOODPUT: Column = ("goodput", known("goodput", "{:.1%}".format))
DISTANCE: list[Column] = [
    ("consensus\ndistance", lambda row: told(row["consensus"], ".1e") if row["consensus"] != 0 else "0")
]


def show_outcomes(outcomes: list[Outcome]) -> None:
    """A row for each strategy; then the traces, which repeat with the seed."""
    rows = [outcome.to_json() for outcome in outcomes]
    is_dry = outcomes[0].arrays is None
    learned = [] if is_dry else reported(rows)
    rest = AGES if is_dry else AGES + DISTANCE
    times = [duration("virtual\ntime", "virtual_s"), PACE]
    if any(row["goodput"] is not None for row in rows):
        times.append(GOODPUT)
    first = rows[0]
    title = f"{first['workers']} simulated workers, {first['samples']:,.0f} samples, seed {first['seed']}"
    if screen.width >= WIDE or is_dry:
        show_tables(title, rows, times + learned + TRAFFIC + rest)
    else:
        show_tables(title, rows, times + TRAFFIC)
        show_tables("what was learned", rows, learned + rest)
    if len(rows) > 1:
        screen.print(in_words(rows, "virtual_s"), markup=False)
    for row in rows:
        name = f"{row['strategy']}: " if len(rows) > 1 else ""
        if row["coding"] is not None:
            screen.print(name + coding_in_words(row["coding"]), markup=False)
        if any(row["not_finite"]):
            screen.print(name + left_out_in_words(row["not_finite"]), markup=False)
        if row["losses"]:
            screen.print(name + losses_in_words(row["losses"]), markup=False)
        elif row["goodput"] is not None:
            took = human_seconds(row["virtual_s"])
            screen.print(f"{name}No worker was killed: the run took {took} of virtual time.", markup=False)
    show_not_saved(rows)
    screen.print("Traces, the same for the same seed:", markup=False)
    for row in rows:
        screen.print(f"  {row['trace']}  {row['strategy']}", markup=False)


def show_not_saved(rows: list[Row]) -> None:
    """Say once more, and loudly, which models are not where the script saved them."""
    for row in rows:
        name = f"{row['strategy']}: " if len(rows) > 1 else ""
        told: Counter[str] = Counter(row["not_saved"])
        for text, times in told.items():
            often = f" ({times} times)" if times > 1 else ""
            screen.print(f"{name}{text}{often}", style="bold red", markup=False)


def duration(heading: str, time_key: str) -> Column:
    """A column of times: virtual ones or real ones."""
    return heading, lambda row: human_seconds(row[time_key])


def reported(rows: list[Row]) -> list[Column]:
    """A column for every number that any of the runs reported."""

    def column(name: str) -> Column:
        return name, lambda row: told(row["final"][name], ".4f") if name in row["final"] else ""

    return [column(name) for name in dict.fromkeys(name for row in rows for name in row["final"])]


def coding_in_words(coding: Row) -> str:
    """What codecs have saved and cost, and what they have not said."""
    times = coding["bytes_before"] / max(1, coding["bytes_after"])
    return (
        f"Coded: {human_bytes(coding['bytes_before'])} became {human_bytes(coding['bytes_after'])}, {times:.1f} times "
        f"fewer; encoding took {human_seconds(coding['encode_s'])}, decoding {human_seconds(coding['decode_s'])}; "
        f"norm of what is left for later: {coding['residual_norm']:.3g}."
    )


def losses_in_words(losses: list[Row]) -> str:
    """How many workers were killed, and how soon new ones took their places."""
    after_s = [loss["replaced_s"] - loss["lost_s"] for loss in losses if loss["replaced_s"] is not None]
    words = f"Killed: {len(losses)} workers, of which {len(after_s)} were replaced"
    return f"{words}, after {human_seconds(max(after_s))} at most." if after_s else f"{words}."


def told(value: float | None, form: str) -> str:
    """A number, or that it is none: training that diverged ends in what is not finite."""
    return "diverged" if value is None else format(value, form)


def table(title: str, rows: list[Row], columns: list[Column], name: str = "strategy") -> Table:
    """A row for each of `rows`, which begins with what it has under `name`."""
    drawn = Table(title=title)
    drawn.add_column(name, overflow="fold")  # a long name gives way to the numbers
    for heading, _ in columns:
        drawn.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        drawn.add_row(escape(str(row[name])), *(cell(row) for _, cell in columns))
    return drawn


def show_tables(title: str, rows: list[Row], columns: list[Column], name: str = "strategy") -> None:
    """The table of all columns, or as many tables as it takes for the screen to show every number whole."""
    names = max(len(str(row[name])) for row in rows)
    room = screen.width - 1 - FRAME - min(max(names, len(name)), NAME_WIDTH_MIN)
    groups: list[list[Column]] = [[]]
    left = room
    for column in columns:
        heading, cell = column
        width = FRAME + max(len(text) for text in (*heading.split("\n"), *(cell(row) for row in rows)))
        if width > left and groups[-1]:
            groups.append([])
            left = room
        groups[-1].append(column)
        left -= width
    for number, group in enumerate(groups):
        screen.print(table(title if not number else f"{title} (more)", rows, group, name))


def in_words(rows: list[Row], time_key: str) -> str:
    """Who was fastest by `time_key` and, where accuracy was reported, who learned most."""
    fastest = min(rows, key=lambda row: row[time_key])
    slowest = max(rows, key=lambda row: row[time_key])
    words = "" if any(row.get("losses") for row in rows) else "All trained on the same samples. "
    if slowest[time_key] < CLOSE * fastest[time_key]:
        words += f"All took about as long ({human_seconds(fastest[time_key])})."
    else:
        words += (
            f"Fastest: {fastest['strategy']}, {human_seconds(fastest[time_key])}; "
            f"slowest: {slowest['strategy']}, {human_seconds(slowest[time_key])} "
            f"({slowest[time_key] / fastest[time_key]:.1f} times as long)."
        )
    scored = [row for row in rows if row["final"].get("accuracy") is not None]
    if scored:
        best = max(scored, key=lambda row: (row["final"]["accuracy"], -row[time_key]))
        words += f" Most accurate: {best['strategy']}, {best['final']['accuracy']:.4f}."
        good = [row for row in scored if row["final"]["accuracy"] >= best["final"]["accuracy"] - 0.02]
        quick = min(good, key=lambda row: row[time_key])
        if quick is not best:
            words += (
                f" Within 2 points of it and quickest: {quick['strategy']}, "
                f"{quick['final']['accuracy']:.4f} in {human_seconds(quick[time_key])}."
            )
    return words
