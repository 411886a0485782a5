"""The head of a report: what was compared, the table of contenders, the race to the target."""

import shlex

from weft.observe.records.comparison import Comparison, Setup
from weft.observe.records.quantities import human_bytes, human_seconds
from weft.observe.report.bars import race
from weft.observe.report.figures import Figures, Standings
from weft.observe.report.markup import Markup, joined, tag
from weft.observe.report.sections import pictured, section
from weft.observe.report.words import diverged_in_words, listed, number

UNKNOWN = "not known"


def facts(setup: Setup) -> list[tuple[str, str]]:
    """What was compared, as pairs of a word and what there is to say."""
    slow = [f"worker {rank} takes {factor:g} times as long" for rank, factor in setup.slow.items()]
    found = [
        ("script", shlex.join([setup.script, *setup.arguments])),
        ("workers", str(setup.workers)),
        ("slow workers", ", ".join(slow) or "none was made slow"),
        ("network", setup.network or "the machine's own, nothing was slowed down"),
        ("target", str(setup.target) if setup.target is not None else "none: times are those of whole runs"),
        ("seeds", ", ".join(map(str, setup.seeds)) + (" (one seed has no spread)" if len(setup.seeds) == 1 else "")),
        ("runs", f"simulated, on the cluster '{setup.cluster}'" if setup.is_simulated else "real, on this machine"),
        ("machine", ", ".join(_machine(name, said) for name, said in setup.machine.items() if said is not None)),
    ]
    found += [(name.replace("_", " "), value) for name, value in setup.options.items()]
    return [(word, said) for word, said in found if said]


def _machine(name: str, value: str | float) -> str:
    """'cores 2', 'memory 8.0 GB'."""
    is_bytes = name.endswith("_bytes") and not isinstance(value, str)
    said = human_bytes(float(value)) if is_bytes else str(value)
    return f"{name.removesuffix('_bytes').replace('_', ' ')} {said}"


def facts_section(setup: Setup) -> Markup:
    """What was compared."""
    pairs = [part for word, said in facts(setup) for part in (tag("dt", word), tag("dd", said))]
    return section("What was compared", tag("dl", *pairs))


def headings(table: Standings, comparison: Comparison) -> list[str]:
    """The columns that the terminal and the page both have, the first being the contender."""
    target, reference = comparison.setup.target, table.reference
    time = f"time to {target}" if target is not None else "time for all samples"
    over = f"speed-up over {reference.label}" if reference is not None else "speed-up"
    final = f"final {table.measure}" if table.measure is not None else "final number"
    return ["contender", time, over, "samples/s", final, "bytes sent per worker", "time waiting"]


def cells(row: Figures, table: Standings) -> list[tuple[str, str]]:
    """What stands in a row after its label: each with what is said in small print, mostly nothing."""
    speedup = table.speedup(row)
    return [
        _time(row, table),
        (f"{speedup:.2f}" if speedup is not None else "", ""),
        (f"{row.samples_per_s:,.0f}" if row.samples_per_s is not None else "", ""),
        _final(row),
        (human_bytes(row.bytes_per_worker) if row.bytes_per_worker is not None else UNKNOWN, ""),
        (f"{100 * abs(row.waiting):.0f} %" if row.waiting is not None else UNKNOWN, ""),
    ]


def _time(row: Figures, table: Standings) -> tuple[str, str]:
    if row.time_s is None or row.times_s is None:
        if not table.has_target:
            return "diverged", f"{row.num_diverged} of {row.num_runs} seeds" if row.num_runs > 1 else ""
        return "not reached", f"{row.num_reached} of {row.num_runs} seeds did" if row.num_reached else ""
    low, high = map(human_seconds, row.times_s)
    return human_seconds(row.time_s), f"{low} to {high}" if row.num_runs > 1 else ""


def _final(row: Figures) -> tuple[str, str]:
    if row.final is None or row.finals is None:
        return "diverged" if row.num_diverged else UNKNOWN, ""
    spread = f"{number(row.finals[0])} to {number(row.finals[1])}" if row.num_finals > 1 else ""
    return number(row.final), ", ".join(part for part in (spread, diverged_in_words(row)) if part)


def excuse(row: Figures) -> str | None:
    """Why a contender has no figures; None if it has."""
    if row.error is not None:
        return f"failed: {row.error}"
    return None if row.num_runs else "has not run yet"


def table_section(table: Standings, comparison: Comparison) -> Markup:
    """One row for each contender, the fastest first."""
    names = headings(table, comparison)
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in names)))
    body = tag("tbody", *(_row(row, table, names) for row in table.rows))
    said = "Times are medians over seeds, final numbers means; small print says from where to where the seeds go."
    if any(row.waiting is None or row.bytes_per_worker is None for row in table.standing):
        said += " Not known is what nobody could measure, as what a baseline sends."
    return pictured("Contenders", tag("table", head, body), said)


def _row(row: Figures, table: Standings, names: list[str]) -> Markup:
    name = tag("td", joined([row.label, tag("small", "baseline")]) if row.is_baseline else row.label)
    why = excuse(row)
    if why is not None:
        return tag("tr", name, tag("td", why, class_="why", colspan=len(names) - 1))
    said = cells(row, table)
    boxes = [
        tag("td", tag("span", joined([text, tag("small", small)]) if small else text), data_label=heading)
        for heading, (text, small) in zip(names[1:], said)
    ]
    won = "won" if row is table.winner else None
    return tag("tr", name, *boxes, class_=won)


def race_section(table: Standings, comparison: Comparison, looks: dict[str, str]) -> Markup | None:
    """A bar for each time; None if nobody has one."""
    if not table.timed:
        return None
    rows = [
        (row.label, looks[row.label], row.time_s, row.times_s, human_seconds(row.time_s))
        for row in table.timed
        if row.time_s is not None and row.times_s is not None
    ]
    said = "Shorter is better; the thin line goes from the fastest seed to the slowest."
    if len(comparison.setup.seeds) == 1:
        said = "Shorter is better; with one seed nobody knows how much of a small difference is chance."
    missing = [row.label for row in table.standing if row.time_s is None]
    if missing:
        why = "the target was not reached with every seed" if table.has_target else "not every seed ended well"
        said += f" Not here, because {why}: {listed(missing)}."
    title = "Time for all samples" if comparison.setup.target is None else f"Time to {comparison.setup.target}"
    return pictured(title, race(rows), said)
