"""What all verbs print alike: tables, errors, human numbers."""

import os
import traceback
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from weft.core.errors import NodeLost, WeftError
from weft.core.shortening import CHARACTERS_MAX, shortened

PLAIN_WIDTH = 120
"""How wide tables may be where no terminal says it: in files and pipes."""

screen = Console(highlight=False, emoji=False)
if not screen.is_terminal and "COLUMNS" not in os.environ:
    screen.width = PLAIN_WIDTH
errors = Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)

PACKAGE = str(Path(__file__).resolve().parents[2]) + os.sep


def show_error(error: WeftError) -> None:
    """The error's own words; for a script that raised, its traceback last; nothing if the script has said it all."""
    if isinstance(error, NodeLost) and error.is_said:
        return
    errors.print(f"[bold red]{type(error).__name__}[/]: {escape(shortened(str(error), 2 * CHARACTERS_MAX))}")
    cause = error.__cause__
    if isinstance(error, NodeLost) and cause is not None:
        frames = [f for f in traceback.extract_tb(cause.__traceback__) if _is_theirs(f.filename)]
        lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames)]
        lines += traceback.format_exception_only(type(cause), cause)
        errors.print(escape(shortened("".join(lines).rstrip())), style="red")
    elif isinstance(error, NodeLost) and error.traceback:
        errors.print(escape(error.traceback), style="red")


def _is_theirs(filename: str) -> bool:
    """Frames of the user's code and libraries, not of Weft or the machinery that imports scripts."""
    return not filename.startswith((PACKAGE, "<frozen"))


def show_left_out(refused: Mapping[str, str]) -> None:
    """Name those of 'all' that cannot run here, a line for each."""
    for name, why in refused.items():
        errors.print(f"{name} is left out: {why.splitlines()[0]}", markup=False)
