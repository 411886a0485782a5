"""weft secret new: the secret that the processes of a job prove to each other, for engines that need it given."""

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.show.screen import screen
from weft.engines.real.secret import FILE_VARIABLE, new_secret, write_secret

app = typer.Typer(help="The secret that the processes of a job prove to each other.", no_args_is_help=True)


@app.callback()
def secret() -> None:
    """The secret that the processes of a job prove to each other."""


@app.command()
def new(
    file: Annotated[
        Path | None, typer.Argument(help="A new file for it that only you can read; without one it is printed.")
    ] = None,
) -> None:
    """Make a new secret."""
    made = new_secret()
    if file is None:
        screen.print(made.hex(), soft_wrap=True)
        return
    write_secret(made, file)
    screen.print(f"A new secret is in '{file}'. Give each host a copy and set {FILE_VARIABLE}={file}.", soft_wrap=True)
