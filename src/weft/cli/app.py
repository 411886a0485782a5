"""The `weft` command: its verbs, and how errors leave it."""

import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Annotated

import typer

from weft import __version__
from weft.cli.options.script_command import ScriptCommand
from weft.cli.show.command_errors import command_errors
from weft.cli.show.screen import screen

VERBS = (
    *("run", "simulate", "compare", "calibrate", "strategies", "codecs", "topology", "fuzz", "replay", "doctor"),
    *("checkpoint", "secret", "bench"),
)
"""In the order in which they are listed; each has a module of its name in weft.cli.verbs."""
WITH_SCRIPTS = ("run", "simulate", "compare", "calibrate")
GROUPS = ("checkpoint", "secret", "bench")
"""Those that have verbs of their own."""


def _show_version(asked: bool) -> None:
    if asked:
        screen.print(f"weft {__version__}")
        raise typer.Exit


def weft(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="And exit.")
    ] = False,
) -> None:
    """Train one model on many workers, real or simulated: synchronous, stale, asynchronous or gossiping."""


def app_of(verbs: Iterable[str]) -> typer.Typer:
    """The command with these verbs, whose modules are imported."""
    app = typer.Typer(
        name="weft",
        help=weft.__doc__,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(weft)
    for verb in verbs:
        module = import_module(f"weft.cli.verbs.{verb}")
        if verb in GROUPS:
            app.add_typer(module.app, name=verb)
        else:
            app.command(cls=ScriptCommand if verb in WITH_SCRIPTS else None)(getattr(module, verb))
    return app


def main() -> None:
    """Run the command that was given. Only its verb's modules are imported: workers wait for that, too."""
    with command_errors():
        asked = sys.argv[1:2]
        app_of(asked if asked and asked[0] in VERBS else VERBS)()
