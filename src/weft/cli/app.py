"""The `weft` command: its verbs, and how errors leave it."""

from typing import Annotated

import typer

from weft import __version__
from weft.cli.options.script_command import ScriptCommand
from weft.cli.show.command_errors import command_errors
from weft.cli.show.screen import screen
from weft.cli.verbs import (
    bench,
    calibrate,
    checkpoint,
    codecs,
    compare,
    doctor,
    fuzz,
    replay,
    run,
    secret,
    simulate,
    strategies,
    topology,
)

app = typer.Typer(
    name="weft",
    help="Train one model on many workers, real or simulated: synchronous, stale, asynchronous or gossiping.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        screen.print(f"weft {__version__}")
        raise typer.Exit


@app.callback()
def weft(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="And exit.")
    ] = False,
) -> None:
    """Train one model on many workers, real or simulated: synchronous, stale, asynchronous or gossiping."""


for verb in (run.run, simulate.simulate, compare.compare, calibrate.calibrate):
    app.command(cls=ScriptCommand)(verb)
app.command()(strategies.strategies)
app.command()(codecs.codecs)
app.command()(topology.topology)
app.command()(fuzz.fuzz)
app.command()(replay.replay)
app.command()(doctor.doctor)
app.add_typer(checkpoint.app, name="checkpoint")
app.add_typer(secret.app, name="secret")
app.add_typer(bench.app, name="bench")


def main() -> None:
    """Run the command that was given."""
    with command_errors():
        app()
