"""How a worker's end is told: its error, its own traceback without Weft's frames, what it was doing."""

import os
import traceback
from pathlib import Path

from weft.core.errors import WeftError
from weft.runtime.channel import Failed

PACKAGE = str(Path(__file__).resolve().parents[1]) + os.sep


def failure(error: BaseException, step: int, doing: str) -> Failed:
    """What to tell the engine. An error of Weft's own explains itself; a script's needs its traceback."""
    told = ""
    if not isinstance(error, WeftError):
        frames = [
            f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith((PACKAGE, "<frozen"))
        ]
        lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames)]
        told = "".join([*lines, *traceback.format_exception_only(type(error), error)]).rstrip()
    return Failed(type(error).__name__, str(error), told, step, doing)
