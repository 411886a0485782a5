"""The `weft` command: its verbs, and how errors leave it."""

import sys

import typer

from weft.cli import bench, calibrate, simulate, strategies, topology
from weft.cli.screen import show_error
from weft.core.errors import ConfigError, WeftError

app = typer.Typer(
    name="weft",
    help="Train one model on many workers: synchronous, stale, asynchronous or gossiping; real or simulated.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(simulate.simulate)
app.command()(calibrate.calibrate)
app.command()(strategies.strategies)
app.command()(topology.topology)
app.add_typer(bench.app, name="bench")


def main() -> None:
    """Run the command; 2 says that nothing was started, 1 that something failed."""
    try:
        app()
    except ConfigError as error:
        show_error(error)
        sys.exit(2)
    except WeftError as error:
        show_error(error)
        sys.exit(1)
