"""weft doctor: whether real workers can run on this machine, and what to fix."""

import typer
from rich.table import Table
from rich.text import Text

from weft.cli.screen import screen
from weft.engines.doctor import CHECKS, Finding, examine

MARKS = {"ok": ("ok", "green"), "warn": ("warn", "yellow"), "bad": ("BAD", "bold red")}


def doctor() -> None:
    """Check this machine: cores, memory, shared memory, ports, limits, torch."""
    findings = examine(CHECKS)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        table.add_row(Text(*MARKS[finding.verdict]), finding.name, Text(finding.found))
        if finding.fix:
            table.add_row("", "", Text(finding.fix, style="bold"))
    screen.print(table)
    screen.print(in_words(findings))
    if any(finding.verdict == "bad" for finding in findings):
        raise typer.Exit(1)


def in_words(findings: list[Finding]) -> str:
    """What the findings amount to."""
    bad, warned = ([f.name for f in findings if f.verdict == verdict] for verdict in ("bad", "warn"))
    if bad:
        return f"Real workers will not run here before this is fixed: {', '.join(bad)}."
    if warned:
        return f"Real workers can run here; worth a look: {', '.join(warned)}."
    return "Real workers can run here."
