"""The `weft` command: its verbs, and how errors leave it."""

import errno
import resource
import sys
from typing import Annotated

import typer

from weft import __version__
from weft.cli import head
from weft.cli.options.script_command import ScriptCommand
from weft.cli.show.screen import screen, show_error
from weft.cli.show.streams import enduring_streams
from weft.cli.verbs import (
    bench,
    calibrate,
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
from weft.core.errors import TransportError, WeftError

ENOUGH = 4096
"""Open files, sockets and pipes for hundreds of workers."""

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
app.command(hidden=True)(head.head)
app.add_typer(secret.app, name="secret")
app.add_typer(bench.app, name="bench")


def main() -> None:
    """Run the command; 2 says that nothing was started, 1 that something failed, others are the script's own."""
    with enduring_streams():
        try:
            app()
        except WeftError as error:
            show_error(error)
            sys.exit(error.exit_code)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            show_error(out_of_descriptors(error))
            sys.exit(1)
        except KeyboardInterrupt:
            sys.exit(130)


def out_of_descriptors(error: OSError) -> WeftError:
    """What is lacking when no more files, sockets or pipes can be opened, and how to get it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    can_rise = hard == resource.RLIM_INFINITY or hard > soft
    advice = f"Raise it: ulimit -n {hard if can_rise and 0 < hard < ENOUGH else ENOUGH}"
    advice += "" if can_rise else " (which the system's administrator has to allow)"
    return TransportError(
        f"no more files, sockets or pipes can be opened: {error.strerror}; a process may have {soft:,} (ulimit -n).\n"
        f"  {advice}, or use fewer workers."
    )
