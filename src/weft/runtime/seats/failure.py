"""Makes the `Failed` message of an exception: its text, its traceback without Weft's frames, what the worker did."""

import os
from pathlib import Path
from traceback import StackSummary, TracebackException

from weft.core.errors import WeftError
from weft.core.leaving import ScriptLeft, code_of
from weft.core.shortening import shortened
from weft.runtime.messages import Failed

PACKAGE = str(Path(__file__).resolve().parents[2]) + os.sep


def failure(error: BaseException, step: int, doing: str) -> Failed:
    """The message for the engine. Weft's own errors and sys.exit need no traceback; a script's errors do."""
    told = TracebackException.from_exception(error)
    _leave_out_our_frames(told)
    lines = "" if isinstance(error, WeftError | ScriptLeft) else "".join(told.format()).rstrip()
    try:
        text = str(error)
    except Exception:  # __str__ of a script's own exception may raise
        text = "(it cannot say what)"
    is_said = isinstance(error, ScriptLeft) and error.is_said
    texts = type(error).__name__, _sayable(shortened(text)), _sayable(shortened(lines))
    return Failed(*texts, step, doing, code_of(error), is_said)


def _leave_out_our_frames(told: TracebackException) -> None:
    """Keep the script's frames only, of the error, its causes and contexts; all frames if none is the script's."""
    chain: list[TracebackException | None] = [told]
    while chain:
        each = chain.pop()
        if each is None:
            continue
        theirs = [frame for frame in each.stack if not frame.filename.startswith((PACKAGE, "<frozen"))]
        each.stack = StackSummary.from_list(theirs or each.stack)
        chain += [each.__cause__, each.__context__]


def _sayable(text: str) -> str:
    """Escape lone surrogates (from file names that are not UTF-8), which msgpack cannot encode."""
    return text.encode("utf-8", "backslashreplace").decode()
