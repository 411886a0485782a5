"""A picture of a graph for the terminal: a grid, a tree, a circle or a table, whichever shows it best."""

from math import ceil, cos, floor, pi, sin
from textwrap import wrap

from weft.cli.show.box_drawing import draw_grid, draw_tree
from weft.cli.show.canvas import Canvas
from weft.core.graph import Graph

NUM_CIRCLE_MAX = 32
"""With more places a circle of lines is a ball of wool."""

COLUMNS_MIN = 24
COLUMNS_TABLE_MAX = 64

NUM_SPELT_MAX = 16
"""Up to here a table names every row and column."""

TABLE_LEGEND = "A dot: the place of its row sends to the place of its column."


def draw(graph: Graph, columns: int = 78) -> str:
    """The graph as lines of text no wider than `columns` (at least 24), with a legend where it needs one."""
    columns = max(columns, COLUMNS_MIN)
    if graph.num_places == 1:
        return "0"
    round_ = graph.num_places <= min(NUM_CIRCLE_MAX, 4 * _radius_max(graph, columns))
    if graph.is_undirected and graph.num_rounds == 1:
        picture = draw_grid(graph, columns)
        if picture is None and _hub(graph) is None:
            picture = draw_tree(graph, columns)
        if picture is not None:
            return picture
        if round_:
            return _circle(graph, columns, range(graph.num_places))
    elif round_ and _is_circulant(graph):
        return _with_legend(_circle(graph, columns, range(1)), columns, *_offsets(graph))
    return _table(graph, columns)


def _is_circulant(graph: Graph) -> bool:
    same = Graph.circulant(graph.num_places, *(edges[0] for edges in graph.rounds))
    return same.rounds == graph.rounds


def _offsets(graph: Graph) -> list[str]:
    """How far everybody sends, in a sentence for each round."""
    ways = [", ".join(f"i + {offset}" for offset in edges[0]) or "nobody" for edges in graph.rounds]
    told = [f"Place i sends to {ways[0]}."]
    if len(ways) > 1:
        told = [f"Round {i}: place i sends to {way}." for i, way in enumerate(ways)]
        told.append("Then from round 0 again.")
    return ["Lines show place 0; the others do the same.", *told]


def _hub(graph: Graph) -> int | None:
    """The place in the middle of a star of four or more."""
    degrees = [len(out) for out in graph.rounds[0]]
    num_others = graph.num_places - 1
    is_star = num_others >= 3 and sorted(degrees) == [1] * num_others + [num_others]
    return degrees.index(num_others) if is_star else None


def _nearest(value: float) -> int:
    """Halves go up even after rounding errors, so that pictures are symmetric."""
    return floor(value + 0.5 + 1e-9)


def _radius_max(graph: Graph, columns: int) -> int:
    """In rows; a row is as high as two columns are wide, and labels stand left and right."""
    return (columns - 1 - 2 * (len(str(graph.num_places - 1)) + 1)) // 4


def _circle(graph: Graph, columns: int, drawn: range) -> str:
    """Places on a circle, clockwise from the top (a hub in the middle), and the edges out of `drawn`."""
    hub = _hub(graph)
    around = [place for place in range(graph.num_places) if place != hub]
    margin = len(str(graph.num_places - 1)) + 1
    radius = min(max(5, 3 + graph.num_places // 4), _radius_max(graph, columns))
    middle = (margin + 2 * radius, radius + 1)
    cells = dict.fromkeys(range(graph.num_places), middle)
    canvas = Canvas(2 * middle[0] + 1, 2 * middle[1] + 1)
    for i, place in enumerate(around):
        right, up = sin(2 * pi * i / len(around)), cos(2 * pi * i / len(around))
        column, row = _nearest(middle[0] + 2 * radius * right), _nearest(middle[1] - radius * up)
        cells[place] = column, row
        if abs(right) < 0.1:
            canvas.write(column, row - 1 if up > 0 else row + 1, str(place))
        elif right > 0:
            canvas.write(column + 1, row, f" {place} ")
        else:
            canvas.write(column - margin, row, f"{place} ".rjust(margin))
    for place in drawn:
        for target in graph.everyone(place):
            ends = [(2 * column + 0.5, 4 * row + 1.5) for column, row in (cells[place], cells[target])]
            canvas.line(ends[0], ends[1])
    for place in around:
        canvas.write(*cells[place], "●")
    if hub is not None:
        canvas.write(middle[0] - 1, middle[1], f" {hub} ")
    return str(canvas).rstrip()


def _table(graph: Graph, columns: int) -> str:
    """Who sends to whom: rows send, columns receive."""
    digits = len(str(graph.num_places - 1))
    legend = [TABLE_LEGEND]
    if graph.num_rounds > 1:
        legend.append(f"All {graph.num_rounds} rounds are shown together.")
    if graph.num_places <= NUM_SPELT_MAX and (graph.num_places + 1) * (digits + 1) <= columns:
        return _with_legend(_spelt_table(graph, digits), columns, *legend)
    num_cells_max = min(COLUMNS_TABLE_MAX, columns - digits - 3)
    num_each = ceil(graph.num_places / (2 * num_cells_max))
    if num_each > 1:
        legend.append(f"One dot stands for {num_each} x {num_each} places.")
    return _with_legend(_dot_table(graph, digits, num_each), columns, *legend)


def _spelt_table(graph: Graph, digits: int) -> str:
    lines = [[" " * digits, *(f"{place:>{digits}}" for place in range(graph.num_places))]]
    for place in range(graph.num_places):
        marks = ["●" if target in graph.everyone(place) else "·" for target in range(graph.num_places)]
        lines.append([f"{place:>{digits}}", *(mark.rjust(digits) for mark in marks)])
    return "\n".join(" ".join(line) for line in lines)


def _dot_table(graph: Graph, digits: int, num_each: int) -> str:
    """A square of braille dots, each for `num_each` rows and columns."""
    side = ceil(graph.num_places / num_each)
    width, height = ceil(side / 2), ceil(side / 4)
    canvas = Canvas(width, height)
    for place in range(graph.num_places):
        for target in graph.everyone(place):
            canvas.dot(target // num_each, place // num_each)
    indent = " " * digits
    last = str(graph.num_places - 1)
    names = ["0", *[""] * (height - 2), last]
    rows = [f"{name:>{digits}} │{row:<{width}}│" for name, row in zip(names, str(canvas).split("\n"), strict=True)]
    top = [f"{indent}  0{last:>{width - 1}}", f"{indent} ┌{'─' * width}┐"]
    return "\n".join([*top, *rows, f"{indent} └{'─' * width}┘"])


def _with_legend(picture: str, columns: int, *sentences: str) -> str:
    return "\n".join([picture, "", *(line for sentence in sentences for line in wrap(sentence, columns))])
