"""Bars: the race to the target, shares of each worker's time, and how old updates were."""

from collections.abc import Mapping, Sequence

from weft.observe.report.lines import SIDE
from weft.observe.report.markup import Markup, joined, tag

BINS_MAX = 24
"""More ages than that are put together in groups of neighbours."""


def bar(*pieces: Markup, name: str) -> Markup:
    """One bar that is as wide as its place; pieces are drawn over an empty track."""
    track = tag("rect", class_="track", width=SIDE, height=SIDE)
    square = f"0 0 {SIDE:.0f} {SIDE:.0f}"
    return tag("svg", track, *pieces, viewBox=square, preserveAspectRatio="none", role="img", aria_label=name)


def piece(look: str, begin: float, end: float, said: str, top: float = 0.0, bottom: float = 1.0) -> Markup:
    """A piece of a bar between two places from 0 to 1."""
    return tag(
        "rect",
        tag("title", said),
        class_=f"fill {look}",
        x=SIDE * begin,
        width=SIDE * max(0.0, end - begin),
        y=SIDE * top,
        height=SIDE * (bottom - top),
    )


def race(rows: Sequence[tuple[str, str, float, tuple[float, float], str]]) -> Markup:
    """A bar for each (label, look, time, least and greatest, in words); a whisker spans the least to the greatest."""
    end = max(high for _, _, _, (_, high), _ in rows) or 1.0
    cells = []
    for label, look, value, (low, high), said in rows:
        pieces = [piece(look, 0.0, value / end, f"{label}: {said}")]
        if high > low:
            begin, stop, middle = SIDE * low / end, SIDE * high / end, SIDE / 2
            pieces.append(tag("line", class_="whisker", x1=begin, x2=stop, y1=middle, y2=middle))
        cells += [tag("span", label), bar(*pieces, name=f"{label}: {said}"), tag("b", said)]
    return tag("div", *cells, class_="race")


def shares(name: str, parts: Sequence[tuple[str, str, float]]) -> Markup:
    """One bar of parts (look, in words, share) that follow each other."""
    pieces, begin = [], 0.0
    for look, said, share in parts:
        if share > 0:
            pieces.append(piece(look, begin, begin + share, said))
        begin += share
    return bar(*pieces, name=name)


def histogram(look: str, counts: Mapping[int, int]) -> Markup:
    """How many updates were how old, as shares of all; the oldest age is the last, the highest bar fills the height."""
    total, oldest = sum(counts.values()), max(counts)
    width = bin_width(oldest)
    firsts = range(0, oldest + 1, width)
    shares = [sum(counts.get(age, 0) for age in range(first, first + width)) / total for first in firsts]
    cells = []
    for first, share in zip(firsts, shares):
        said = f"{_ages(first, min(first + width - 1, oldest))}: {100 * share:.1f} % of the updates"
        cells.append(bar(piece(look, 0.0, 1.0, said, 1 - share / max(shares)), name=said))
    bounds = [tag("span", "0"), tag("span", f"{oldest} steps old")]
    return joined([tag("div", *cells, class_="bins"), tag("div", *bounds, class_="bounds")])


def bin_width(oldest: int) -> int:
    """How many neighbouring ages share a bar."""
    return -(-(oldest + 1) // BINS_MAX)


def _ages(first: int, last: int) -> str:
    return f"{first} steps old" if first == last else f"{first} to {last} steps old"
