"""The `weft` command, run in the process of the test."""

import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO

from weft.cli.app import main


@dataclass(frozen=True)
class Ended:
    """How a command ended and what it wrote."""

    code: int
    out: str
    err: str


def weft_command(*arguments: object) -> Ended:
    """Run `weft` with these arguments, as its entry point does."""
    out, err = StringIO(), StringIO()
    before, sys.argv = sys.argv, ["weft", *map(str, arguments)]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
        code = 0
    except SystemExit as left:
        code = int(left.code or 0)
    finally:
        sys.argv = before
    return Ended(code, out.getvalue(), err.getvalue())


def assert_refused(*arguments: object, because: str) -> None:
    """The command ends with 2 and says exactly this; it writes nothing else."""
    ended = weft_command(*arguments)
    assert (ended.code, ended.out, ended.err) == (2, "", f"ConfigError: {because}\n")
