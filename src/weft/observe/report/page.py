"""The report of a comparison as one page that needs nothing but itself: no network, no script, no fonts."""

from pathlib import Path

from weft.observe.records.comparison import Comparison
from weft.observe.report.curves import consensus_section, learned_section, loss_section
from weft.observe.report.figures import standings
from weft.observe.report.markup import Markup, tag
from weft.observe.report.palette import looks
from weft.observe.report.sections import section, unbroken
from weft.observe.report.style import style
from weft.observe.report.summary import facts_section, race_section, table_section
from weft.observe.report.words import counted, kind_in_words, verdict
from weft.observe.report.workers import staleness_section, time_section, timeline_section

HEAD = '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'


def write_html(comparison: Comparison, path: Path) -> None:
    """Write the page to a file."""
    path.write_text(page(comparison), encoding="utf-8")


def page(comparison: Comparison) -> str:
    """The whole page. Equal comparisons have equal pages."""
    setup, table, colours = comparison.setup, standings(comparison), looks(comparison.contenders)
    who, how = counted(setup.workers, "worker"), counted(len(comparison.contenders), "way")
    title = f"{Path(setup.script).name} on {who}: {how} to train"
    charts = {
        "times": race_section(table, comparison, colours),
        "what was reported": learned_section(comparison, table, colours),
        "training loss": loss_section(comparison, table, colours),
        "where time went": time_section(comparison, table),
        "how old updates were": staleness_section(comparison, table, colours),
        "consensus distance": consensus_section(comparison, table, colours),
        "who did what when": timeline_section(comparison, table),
    }
    missing = [name for name, chart in charts.items() if chart is None]
    said = tag("p", f"Left out, because there is nothing to show: {', '.join(missing)}.", class_="soft")
    parts = [
        facts_section(setup),
        table_section(table, comparison),
        *(chart for chart in charts.values() if chart is not None),
        *([tag("section", said)] if missing else []),
        section("How to repeat it", tag("pre", tag("code", setup.command))),
    ]
    head = tag(
        "header",
        tag("h1", title),
        tag("p", kind_in_words(setup) + _unfinished(comparison), class_="kind"),
        tag("p", unbroken(verdict(comparison)), class_="verdict"),
    )
    main = tag("main", head, *parts)
    top = Markup(f"{HEAD}<style>{style()}</style>")
    return f'<!doctype html>\n<html lang="en">{tag("head", tag("title", title), top)}{tag("body", main)}</html>\n'


def _unfinished(comparison: Comparison) -> str:
    return "." if comparison.is_complete else "; not all runs are done yet."
