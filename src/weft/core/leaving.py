"""How a script leaves before its end: with a code, by sys.exit or by raising SystemExit, which Weft passes on."""

from collections.abc import Sequence

from weft.core.errors import NodeLost

HELP = ("-h", "--help", "--version")
"""Arguments by which a script is asked to say something and leave."""
ARGPARSE = "argparse"


class ScriptLeft(Exception):
    """A script left with a code, before it joined or because it failed; with `is_said`, it has said why by itself."""

    def __init__(self, code: object, *, is_said: bool = False) -> None:
        is_number = code is None or isinstance(code, int)
        super().__init__(f"the script called sys.exit({code!r})" if is_number else str(code))
        self.exit_code = exit_code(code)
        self.is_said = is_said


def left_by(stop: SystemExit, arguments: Sequence[str], *, has_joined: bool) -> ScriptLeft | None:
    """What a SystemExit says of a script with these arguments; None if it has ended as it would without one.

    Before it joined, leaving with 0 is the script's wish only if it was asked for help or argparse left: else
    `sys.exit(main())` of a script that does not know Weft would pass for a training.
    """
    is_failure = exit_code(stop.code) != 0
    is_said = _is_by_argparse(stop) or (not is_failure and any(word in HELP for word in arguments))
    return ScriptLeft(stop.code, is_said=is_said) if is_failure or (is_said and not has_joined) else None


def _is_by_argparse(stop: SystemExit) -> bool:
    """It was raised in argparse, which has printed help, a version or what is wrong with the arguments."""
    trace = stop.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_globals.get("__name__") == ARGPARSE


def exit_code(code: object) -> int:
    """With what a process ends whose script leaves with `code`, as Python has it; never 0 for a code that is not."""
    if code is None or code == 0:
        return 0
    return code & 0xFF or 1 if isinstance(code, int) else 1


def code_of(error: BaseException) -> int:
    """With what a process ends whose script was ended by this error."""
    return error.exit_code if isinstance(error, ScriptLeft) else 1


def in_words(error: str, when: str, text: str) -> str:
    """'raised ValueError at step 3: bad luck', or 'left at step 3: the script called sys.exit(7)'."""
    how = "left" if error == ScriptLeft.__name__ else f"raised {error}"
    return f"{how} {when}: {text}"


def lost_by(who: str, when: str, error: Exception, text: str | None = None) -> NodeLost:
    """What is told of a script that this error ended here: caused by it, unless the script left of its own will."""
    lost = NodeLost(f"{who} {in_words(type(error).__name__, when, str(error) if text is None else text)}")
    lost.exit_code = code_of(error)
    lost.is_said = isinstance(error, ScriptLeft) and error.is_said
    lost.__cause__ = None if isinstance(error, ScriptLeft) else error
    return lost
