"""How a worker's end is told: its error, its own traceback without Weft's frames, what it was doing."""

import os
from pathlib import Path
from traceback import StackSummary, TracebackException

from weft.core.errors import WeftError
from weft.core.leaving import ScriptLeft, code_of
from weft.core.shortening import shortened
from weft.runtime.messages import Failed

PACKAGE = str(Path(__file__).resolve().parents[2]) + os.sep


def failure(error: BaseException, step: int, doing: str) -> Failed:
    """What to tell the engine. Errors of Weft's own and leaving explain themselves; a script's need their traceback."""
    told = TracebackException.from_exception(error)
    _leave_out_our_frames(told)
    lines = "" if isinstance(error, WeftError | ScriptLeft) else "".join(told.format()).rstrip()
    try:
        text = str(error)
    except Exception:  # a script's own error may not even be able to say what it is
        text = "(it cannot say what)"
    is_said = isinstance(error, ScriptLeft) and error.is_said
    texts = type(error).__name__, _sayable(shortened(text)), _sayable(shortened(lines))
    return Failed(*texts, step, doing, code_of(error), is_said)


def _leave_out_our_frames(told: TracebackException) -> None:
    """Show the script's frames only, of this error and of those behind it; all of them if none is the script's."""
    chain: list[TracebackException | None] = [told]
    while chain:
        each = chain.pop()
        if each is None:
            continue
        theirs = [frame for frame in each.stack if not frame.filename.startswith((PACKAGE, "<frozen"))]
        each.stack = StackSummary.from_list(theirs or each.stack)
        chain += [each.__cause__, each.__context__]


def _sayable(text: str) -> str:
    """File names may hold bytes that are no text."""
    return text.encode("utf-8", "backslashreplace").decode()
