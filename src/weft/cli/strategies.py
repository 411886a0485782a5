"""weft strategies: all methods, their parameters, one line each."""

import inspect

from rich.table import Table

from weft.cli.screen import screen
from weft.config.registry import STRATEGIES, default_text, parameters


def strategies() -> None:
    """List all strategies with their parameters."""
    table = Table(title="strategies", show_lines=False)
    table.add_column("name", style="bold", no_wrap=True)
    table.add_column("parameters", overflow="fold")
    table.add_column("method", overflow="fold")
    for name, cls in STRATEGIES.items():
        told = [f"{parameter}={default_text(cls, parameter)}" for parameter in parameters(cls)]
        table.add_row(name, ", ".join(told), (inspect.getdoc(cls) or "").splitlines()[0])
    screen.print(table)
    screen.print("What they mean: docs/strategies.md.")
    screen.print("Use one as it is (--strategy gossip) or with parameters: --strategy 'gossip(topology=torus)'.")
