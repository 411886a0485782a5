"""How a doctor's findings are shown: a verdict, what was found, and what to do about it."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from weft.cli.show.screen import screen
from weft.engines.diagnose.machine import Finding

MARKS = {"ok": ("ok", "green"), "warn": ("warn", "yellow"), "bad": ("BAD", "bold red")}


def show_findings(findings: Sequence[Finding]) -> None:
    """A line for each, and one more for what to do."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        table.add_row(Text(*MARKS[finding.verdict]), finding.name, Text(finding.found))
        if finding.fix:
            table.add_row("", "", Text(finding.fix, style="bold"))
    screen.print(table)
