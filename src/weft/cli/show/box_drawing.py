"""Grids and trees in box-drawing characters; None when the graph is not one, or too large."""

from collections.abc import Iterator
from itertools import pairwise
from textwrap import wrap

from weft.core.graph import Graph
from weft.topologies.grid import grid_edges

ROWS_MAX = 40
"""Pictures stay on one screen."""

WRAP_LEGEND = "Dashed edges wrap around to the opposite side."


def draw_grid(graph: Graph, columns: int) -> str | None:
    """A 2-D torus or mesh in rows, a line in one row (a ring is left to the circle)."""
    for height in range(1, graph.num_places // 2 + 1):
        width, rest = divmod(graph.num_places, height)
        for wraps in (False, True):
            if rest or (wraps and height == 1):
                continue
            same = Graph.undirected(graph.num_places, grid_edges((height, width), wraps))
            if same.rounds == graph.rounds:
                return _grid(height, width, wraps, columns)
    return None


def _grid(height: int, width: int, wraps: bool, columns: int) -> str | None:
    digits = len(str(height * width - 1))
    gap = min(4, (columns - 4) // width - digits)
    if gap < 1 or 2 * height + 1 > ROWS_MAX:
        return None
    around, over = wraps and width > 2, wraps and height > 2
    edge = "╌╌" if around else ""
    indent = " " * (len(edge) + digits - 1)
    between = " " * (gap + digits - 1)
    lines = [indent + between.join("╎" * width)] if over else []
    for row in range(height):
        labels = [str(row * width + i) for i in range(width)]
        first = labels[0].rjust(digits, "╌" if around else " ")
        lines.append(edge + first + "".join(label.rjust(digits + gap, "─") for label in labels[1:]) + edge)
        if row < height - 1:
            lines.append(indent + between.join("│" * width))
    lines += [indent + between.join("╎" * width)] if over else []
    return "\n".join(lines + (["", *wrap(WRAP_LEGEND, columns)] if around or over else []))


def draw_tree(graph: Graph, columns: int) -> str | None:
    """A tree with place 0 on top."""
    if graph.num_rounds > 1 or graph.edges_per_step != 2 * (graph.num_places - 1):
        return None
    children: dict[int, list[int]] = {}
    levels = [[0]]
    while levels[-1]:
        for place in levels[-1]:
            children[place] = [other for other in graph.everyone(place) if other not in children]
        levels.append([child for place in levels[-1] for child in children[place]])
    levels.pop()
    centres: dict[int, int] = {}
    _set_out(0, 0, children, len(str(graph.num_places - 1)) + 1, centres)
    if max(centres.values()) + 2 > columns or 2 * len(levels) > ROWS_MAX:
        return None
    lines = [_labels(levels[0], centres)]
    for parents, level in pairwise(levels):
        lines += [_forks(parents, children, centres), _labels(level, centres)]
    return "\n".join(lines)


def _set_out(place: int, left: int, children: dict[int, list[int]], spacing: int, centres: dict[int, int]) -> int:
    """Give everybody below `place` a column from `left` on, parents amid their children.

    Answers the next free column.
    """
    if not children[place]:
        centres[place] = left
        return left + spacing
    for child in children[place]:
        left = _set_out(child, left, children, spacing, centres)
    centres[place] = (centres[children[place][0]] + centres[children[place][-1]]) // 2
    return left


def _labels(level: list[int], centres: dict[int, int]) -> str:
    line = ""
    for place in level:
        line = line.ljust(centres[place]) + str(place)
    return line


def _forks(parents: list[int], children: dict[int, list[int]], centres: dict[int, int]) -> str:
    line = ""
    for parent in parents:
        ends = [centres[child] for child in children[parent]]
        if ends:
            line = line.ljust(ends[0]) + "".join(_fork(ends, centres[parent]))
    return line


def _fork(ends: list[int], parent: int) -> Iterator[str]:
    """'┌──┴──┐' from the first child to the last, with a branch down to each and one up to the parent."""
    for column in range(ends[0], ends[-1] + 1):
        up, down = column == parent, column in ends
        left, right = column > ends[0], column < ends[-1]
        yield JOINTS[up, down, left, right]


JOINTS = {
    (False, False, True, True): "─",
    (True, False, True, True): "┴",
    (True, True, True, True): "┼",
    (False, True, True, True): "┬",
    (False, True, False, True): "┌",
    (False, True, True, False): "┐",
    (True, True, False, False): "│",
    (True, True, False, True): "├",
}
"""By where the lines of a character go: up, down, left, right."""
