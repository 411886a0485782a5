"""The options of --set, as `weft run --set help` lists them."""

import typer

from weft.cli.show.listing import show_listing
from weft.config.options import LEAVES

HELP = "help"


def show_if_asked(context: typer.Context, texts: list[str] | None) -> list[str] | None:
    """List the options that a verb takes, and end, if that is all that --set was given for."""
    if not texts or HELP not in texts:
        return texts
    verb = context.command_path
    entries = [(f"{key}={leaf.example}", [leaf.does]) for key, leaf in LEAVES.items() if verb in leaf.takers]
    show_listing(f"options of {verb}, with examples", [*entries, ("strategy.NAME=VALUE", ["of the strategy"])])
    raise typer.Exit
