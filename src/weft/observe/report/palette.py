"""Who has which colour: pairs that colour-blind eyes tell apart too, on a light page, a dark one and on paper."""

from collections.abc import Sequence

from weft.core.activity import COMPUTES, PAUSED, READS, REPORTS, SENDS, WAITS
from weft.observe.records.comparison import Contender

LIGHT = ("#0072b2", "#d55e00", "#009e73", "#b5579a", "#c98a00", "#3a9bd1")
DARK = ("#5aa9e6", "#ff8a5c", "#2cc295", "#e29bc4", "#f2b632", "#9ad7f5")
"""After Okabe and Ito, darkened or lightened until thin lines can be seen."""

DASHES = ("", "6 3", "2 3")
"""When there are more contenders than colours, the next ones are dashed, then dotted."""

BASELINE = {"light": "#444444", "dark": "#c8c8c8"}

ACTIVITIES_LIGHT = {
    COMPUTES: "#0072b2",
    READS: "#f0c23b",
    WAITS: "#d55e00",
    REPORTS: "#999999",
    PAUSED: "#222222",
    SENDS: "#009e73",
}
ACTIVITIES_DARK = {**ACTIVITIES_LIGHT, COMPUTES: "#3d94d6", PAUSED: "#f5f5f5", SENDS: "#2cc295"}


def looks(contenders: Sequence[Contender]) -> dict[str, str]:
    """The classes of each contender by its label: a colour, and a dash when colours have run out."""
    others = [each.label for each in contenders if not each.is_baseline]
    found = {label: f"k{i % len(LIGHT)} dash{min(i // len(LIGHT), len(DASHES) - 1)}" for i, label in enumerate(others)}
    return {**found, **{each.label: "kb dash0" for each in contenders if each.is_baseline}}


def variables(theme: str) -> str:
    """The colours of a theme, as variables of a style sheet."""
    colours, activities = (LIGHT, ACTIVITIES_LIGHT) if theme == "light" else (DARK, ACTIVITIES_DARK)
    named = {f"c{i}": colour for i, colour in enumerate(colours)} | {"cb": BASELINE[theme]}
    named |= {f"a-{word}": colour for word, colour in activities.items()}
    return "".join(f"--{name}:{colour};" for name, colour in named.items())
