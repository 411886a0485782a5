"""The report of a comparison as one picture, for a message or a slide: who was how fast, how, and where time went."""

from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from textwrap import wrap
from typing import Any

from weft.observe.records.comparison import ComparedRun, Comparison
from weft.observe.records.quantities import human_seconds
from weft.observe.report.figures import Standings, ranked, standings
from weft.observe.report.palette import ACTIVITIES_LIGHT, BASELINE, DASHES, LIGHT, looks
from weft.observe.report.series import Line, mean_line, reported, training_loss
from weft.observe.report.timeline import IN_WORDS
from weft.observe.report.words import kind_in_words, seconds_of, verdict
from weft.observe.report.workers import worker_shares

WORDS_WIDE = 150
LABEL_WIDE = 26
"""How many letters of a sentence and of a label stand in one line."""

Panel = Callable[[Any], None]
"""Draws on axes of matplotlib, which has no types."""


def write_png(comparison: Comparison, path: Path) -> None:
    """Draw what is known in up to four panels. Needs matplotlib; equal comparisons give equal pictures."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = _panels(comparison)
    rows = max(1, -(-len(panels) // 2))
    figure = Figure(figsize=(13, 1.4 + 4.2 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    words = f"{kind_in_words(comparison.setup)}: {verdict(comparison)}"
    figure.suptitle("\n".join(wrap(_plain(words), WORDS_WIDE)), fontsize=11, x=0.01, ha="left")
    for i, panel in enumerate(panels):
        axes = figure.add_subplot(rows, 2, i + 1)
        panel(axes)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    figure.savefig(path, dpi=120, format="png", metadata={"Software": None})


def _panels(comparison: Comparison) -> list[Panel]:
    """Those for which there is anything to draw."""
    table = standings(comparison)
    styles = {label: _line_style(look) for label, look in looks(comparison.contenders).items()}
    found: list[Panel] = []
    if table.timed:
        found.append(lambda axes: _draw_race(axes, comparison, table, styles))
    name = table.measure
    if name is not None:
        found += _curves(comparison, table, styles, name, lambda run: reported(run, name))
    found += _curves(comparison, table, styles, "training loss", training_loss)
    shares = {each.label: of for each in ranked(comparison, table) if (of := worker_shares(comparison, each))}
    if shares:
        found.append(lambda axes: _draw_shares(axes, shares))
    return found


def _line_style(look: str) -> dict[str, Any]:
    """The colour and the dash that a page would give."""
    colour, dash = look.split()
    dashes = DASHES[int(dash.removeprefix("dash"))]
    return {
        "color": BASELINE["light"] if colour == "kb" else LIGHT[int(colour.removeprefix("k"))],
        "linestyle": (0, tuple(map(float, dashes.split()))) if dashes else "-",
    }


def _draw_race(axes: Any, comparison: Comparison, table: Standings, styles: dict[str, dict[str, Any]]) -> None:
    rows = table.timed[::-1]
    for i, row in enumerate(rows):
        axes.barh(i, row.time_s, color=styles[row.label]["color"], height=0.6)
        axes.text(row.times_s[1] if row.times_s else 0.0, i, f"  {human_seconds(row.time_s or 0.0)}", va="center")
        if row.times_s is not None and row.num_runs > 1:
            axes.plot(row.times_s, (i, i), color="black", linewidth=1.2)
    axes.set_yticks(range(len(rows)), [_folded(row.label) for row in rows])
    axes.margins(x=0.15)
    target = comparison.setup.target
    axes.set_title(f"time to {_plain(str(target))}" if target is not None else "time for all samples", loc="left")
    axes.set_xlabel(seconds_of(comparison.setup))


def _curves(
    comparison: Comparison,
    table: Standings,
    styles: dict[str, dict[str, Any]],
    name: str,
    line_of: Callable[[ComparedRun], Line],
) -> list[Panel]:
    lines = {each.label: [line_of(run) for run in each.runs] for each in ranked(comparison, table)}
    lines = {label: seeds for label, seeds in lines.items() if any(seeds)}
    target = comparison.setup.target if comparison.setup.target and comparison.setup.target.name == name else None

    def draw(axes: Any) -> None:
        for label, seeds in lines.items():
            for seed in seeds if len(seeds) > 1 else []:
                axes.plot(*zip(*seed), linewidth=0.6, alpha=0.4, color=styles[label]["color"])
            axes.plot(*zip(*mean_line(seeds)), linewidth=2, label=_plain(label), **styles[label])
        if target is not None:
            axes.axhline(target.value, color="black", linewidth=1, linestyle=":", label=f"target {_plain(str(target))}")
        axes.set_title(f"{_plain(name)} over time", loc="left")
        axes.set_xlabel(seconds_of(comparison.setup))
        axes.set_xlim(left=0)
        axes.grid(alpha=0.25)
        axes.legend(fontsize=8, frameon=False)
        if name == "training loss" and all(
            value > 0 for seeds in lines.values() for line in seeds for _, value in line
        ):
            axes.set_yscale("log")

    return [draw] if lines else []


def _draw_shares(axes: Any, shares: dict[str, dict[int, dict[str, float]]]) -> None:
    labels = list(shares)[::-1]
    left = [0.0] * len(labels)
    for word in next(iter(next(iter(shares.values())).values())):
        widths = [100 * fmean(of[word] for of in shares[label].values()) for label in labels]
        if any(widths):
            axes.barh(
                range(len(labels)), widths, left=left, color=ACTIVITIES_LIGHT[word], height=0.6, label=IN_WORDS[word]
            )
        left = [begin + width for begin, width in zip(left, widths)]
    axes.set_yticks(range(len(labels)), [_folded(label) for label in labels])
    axes.set_xlim(0, 100)
    axes.set_xlabel("% of the workers' time")
    axes.set_title("where the workers' time went", loc="left", pad=22)
    axes.legend(fontsize=8, frameon=False, ncols=4, loc="lower left", bbox_to_anchor=(0, 0.99))


def _folded(label: str) -> str:
    """A long label in several lines, so that bars keep their place."""
    return _plain("\n".join(wrap(label, LABEL_WIDE)))


def _plain(text: str) -> str:
    """Dollar signs are no formulas here."""
    return text.replace("$", r"\$")
