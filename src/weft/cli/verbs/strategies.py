"""weft strategies: all methods, their parameters, one line each."""

from rich.table import Table

from weft.cli.show.listing import NARROW, show_listing
from weft.cli.show.screen import screen
from weft.config.registry import STRATEGIES, default_text, parameters


def strategies() -> None:
    """List all strategies with their parameters."""
    told = {name: ", ".join(f"{p}={default_text(cls, p)}" for p in parameters(cls)) for name, cls in STRATEGIES.items()}
    methods = {name: f"{cls.entry.method}: {cls.entry.summary}" for name, cls in STRATEGIES.items()}
    if screen.width < NARROW:
        show_listing("strategies", [(name, (methods[name], told[name])) for name in STRATEGIES])
    else:
        screen.print(_table(told, methods))
    screen.print("What they mean: docs/strategies.md.")
    screen.print("Use one as it is (--strategy gossip) or with parameters: --strategy 'gossip(topology=torus)'.")


def _table(told: dict[str, str], methods: dict[str, str]) -> Table:
    table = Table(title="strategies", show_lines=False)
    table.add_column("name", style="bold", no_wrap=True)
    table.add_column("parameters", overflow="fold")
    table.add_column("method", overflow="fold")
    for name, method in methods.items():
        table.add_row(name, told[name], method)
    return table
