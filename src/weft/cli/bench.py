"""weft bench: how fast Weft is, measured against its peers in the same run."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from weft.cli.files import check_writable
from weft.cli.screen import screen
from weft.core.errors import ConfigError
from weft.engines.simulator_bench import measure_simulator

app = typer.Typer(help="Measure Weft on this machine.", no_args_is_help=True)


@app.callback()
def bench() -> None:
    """Measure Weft on this machine."""


@app.command()
def simulator(
    blocks: Annotated[int, typer.Option(help="How many alternating blocks of each contender.")] = 15,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all figures to this file.")] = None,
) -> None:
    """Events per second of the simulator, with and without its recorder."""
    if blocks < 1:
        raise ConfigError(f"--blocks is {blocks}, but at least 1 must be measured.\n  Use --blocks 15.")
    check_writable(json_file)
    report = measure_simulator(blocks)
    table = Table(title="simulator: events per second (1 core)")
    for name in ("world", "recorder", "events", "median", "95 % low", "95 % high", "bar"):
        table.add_column(name, justify="left" if name in ("world", "recorder") else "right")
    for row in report["rows"]:
        table.add_row(
            row["world"],
            row["recorder"],
            f"{row['events']:,}",
            *(f"{row[key]:,.0f}" for key in ("events_per_s", "low", "high")),
            f"{row['bar']:,} {'met' if row['low'] >= row['bar'] else 'MISSED'}" if row["bar"] else "",
        )
    screen.print(table)
    if json_file is not None:
        json_file.write_text(json.dumps(report, indent=1) + "\n")
