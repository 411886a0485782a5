"""A chart of lines over time, as SVG that stretches with the page while its words do not."""

from collections.abc import Sequence
from dataclasses import dataclass

from weft.observe.records.quantities import human_seconds
from weft.observe.report.markup import Markup, joined, tag
from weft.observe.report.scales import Scale, label
from weft.observe.report.series import Line

SIDE = 1000.0
"""Charts are drawn on a square of this side and stretched to their place."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One contender on a chart: the mean of its seeds, and each of them."""

    label: str
    look: str
    mean: Line
    seeds: Sequence[Line]
    has_dots: bool
    """Whether its points are few enough to be looked at one by one."""


def chart(
    name: str, unit: str, curves: Sequence[Curve], x: Scale, y: Scale, goal: tuple[float, str] | None = None
) -> Markup:
    """The legend, the lines over time in a unit, a line for the goal; `name` is for those who listen."""
    drawn = [_grid(x, y), *(_seeds(curve, x, y) for curve in curves), *(_mean(curve, x, y) for curve in curves)]
    if goal is not None:
        height = _up(y, goal[0])
        drawn.append(tag("line", tag("title", goal[1]), class_="goal", x1=0, x2=SIDE, y1=height, y2=height))
    square = f"0 0 {SIDE:.0f} {SIDE:.0f}"
    picture = tag("svg", *drawn, viewBox=square, preserveAspectRatio="none", role="img", aria_label=name)
    ys = [tag("span", label(tick), style=f"top:{100 - 100 * y.place(tick):.2f}%") for tick in y.ticks()]
    xs = [tag("span", label(tick), style=f"left:{100 * x.place(tick):.2f}%") for tick in x.ticks()]
    edges = (tag("div", *ys, class_="ys"), picture, tag("div", *xs, class_="xs"), tag("div", unit, class_="xname"))
    return joined([legend([(curve.label, curve.look) for curve in curves], goal), tag("div", *edges, class_="plot")])


def legend(entries: Sequence[tuple[str, str]], goal: tuple[float, str] | None = None) -> Markup:
    """Who has which line."""
    items = [tag("li", swatch(f"mean {look}"), name) for name, look in entries]
    if goal is not None:
        items.append(tag("li", swatch("goal"), goal[1]))
    return tag("ul", *items, class_="legend")


def swatch(look: str) -> Markup:
    """A short piece of a line."""
    return boxed(tag("line", class_=look, x1=0, x2=26, y1=5, y2=5))


def boxed(drawn: Markup) -> Markup:
    """A small drawing before a word of a legend."""
    return tag("svg", drawn, class_="swatch", viewBox="0 0 26 10", aria_hidden="true")


def _up(y: Scale, value: float) -> float:
    """Large values stand high, but a picture counts from its top."""
    return SIDE * (1 - y.place(value))


def _grid(x: Scale, y: Scale) -> Markup:
    across = [tag("line", class_="grid", x1=0, x2=SIDE, y1=_up(y, tick), y2=_up(y, tick)) for tick in y.ticks()]
    down = [tag("line", class_="grid", x1=SIDE * x.place(t), x2=SIDE * x.place(t), y1=0, y2=SIDE) for t in x.ticks()]
    return joined(across + down)


def _path(line: Line, x: Scale, y: Scale) -> str:
    return "M" + "L".join(f"{SIDE * x.place(at):.1f} {_up(y, value):.1f}" for at, value in line)


def _seeds(curve: Curve, x: Scale, y: Scale) -> Markup:
    if len(curve.seeds) < 2:
        return Markup("")
    return joined([tag("path", class_=f"seed {curve.look}", d=_path(line, x, y)) for line in curve.seeds if line])


def _mean(curve: Curve, x: Scale, y: Scale) -> Markup:
    if not curve.mean:
        return Markup("")
    line = tag("path", tag("title", curve.label), class_=f"mean {curve.look}", d=_path(curve.mean, x, y))
    if not curve.has_dots:
        return line
    dots = []
    for at, value in curve.mean:
        place = _path([(at, value)], x, y) + "h0"
        said = tag("title", f"{curve.label}: {value:.4g} after {human_seconds(at)}")
        dots += [tag("path", class_=f"dot {curve.look.split()[0]}", d=place), tag("path", said, class_="hit", d=place)]
    return joined([line, *dots])
