"""How a script leaves before its end: with a code, by sys.exit or by raising SystemExit, which Weft passes on."""


class ScriptLeft(Exception):
    """A script left with a code that says that it failed."""

    def __init__(self, code: object) -> None:
        super().__init__(f"the script called sys.exit({code!r})")
        self.exit_code = exit_code(code)


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
