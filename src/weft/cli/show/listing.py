"""Lists of what there is, for narrow screens: a name, and beside it a few lines that are wrapped."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from weft.cli.show.screen import screen

NARROW = 100
"""A screen of fewer columns gets a list rather than a table: a column of words needs some room."""


def show_listing(title: str, entries: Sequence[tuple[str, Sequence[str]]]) -> None:
    """Each name with its lines; those that are empty are left out."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    for name, lines in entries:
        grid.add_row(name, Text("\n".join(line for line in lines if line)))
    screen.print(Text(title, style="italic"))
    screen.print(grid)
