"""Standard output and error that no run dies of: closed, full, or a pipe that nobody reads any more.

    standard output      what is written to it
    fine                 goes there
    closed at the start  goes to standard error
    cannot be written    goes to standard error from then on, a sentence first; but a broken pipe ends the command
                         unless a run was started: `weft strategies | head -1` ends as `ls | head -1` does, and no
                         training does

What standard error cannot take is lost.
"""

import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOBase
from typing import TextIO

BROKEN_PIPE_CODE = 128 + signal.SIGPIPE
"""What shells say of a command that nobody reads any more: `ls` ends with it."""
STREAMS = 3
"""Descriptors 0 to 2: standard input, output and error."""

_run_started = False


def a_run_starts() -> None:
    """From now on there are figures that must not be lost."""
    global _run_started
    _run_started = True


def take_up_streams() -> None:
    """Open the null device in the place of each standard descriptor that is closed.

    Else the next file, socket or pipe would get its number, and what is printed would go there.
    """
    opened = os.open(os.devnull, os.O_RDWR)
    while opened < STREAMS:  # the system gives the lowest number that is free
        os.set_inheritable(opened, True)
        opened = os.open(os.devnull, os.O_RDWR)
    os.close(opened)


class Enduring(TextIOBase):
    """A stream whose text goes to another one when it cannot be written; with none, it is dropped.

    `own` is None if it was closed when this process began.
    """

    def __init__(self, own: TextIO | None, name: str, instead: TextIOBase | None = None) -> None:
        self._own = own
        self._name = name
        self._instead = instead
        self._is_told = False

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(self._own, "encoding", None) or "utf-8"

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._own is not None and self._own.isatty()

    def fileno(self) -> int:
        if self._own is None:
            raise OSError(errno.EBADF, f"{self._name} is closed")
        return self._own.fileno()

    def write(self, text: str) -> int:
        if self._own is not None:
            try:
                self._own.write(text)
                self._own.flush()
                return len(text)
            except OSError as error:
                self._give_up(error)
        if self._instead is not None:
            self._tell("is closed")
            self._instead.write(text)
        return len(text)

    def flush(self) -> None:
        """All that was written has left."""

    def _give_up(self, error: OSError) -> None:
        assert self._own is not None
        with suppress(OSError, ValueError):  # what it still holds goes nowhere, also when this process ends
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._own.fileno())
            os.close(nowhere)
        self._own = None
        if isinstance(error, BrokenPipeError) and self._instead is not None and not _run_started:
            self._instead = None
            raise SystemExit(BROKEN_PIPE_CODE)
        self._tell(f"cannot be written: {error.strerror}")

    def _tell(self, why: str) -> None:
        """Say once why another stream is written to."""
        if self._instead is not None and not self._is_told:
            self._is_told = True
            self._instead.write(f"{self._name} {why}; what belongs there comes here\n")


@contextmanager
def enduring_streams() -> Iterator[None]:
    """Standard output and error as above, while this lasts; terminals are left alone."""
    take_up_streams()
    before = sys.stdout, sys.stderr
    error = Enduring(sys.stderr, "standard error")
    if sys.stderr is None or not sys.stderr.isatty():
        sys.stderr = error
    if sys.stdout is None or not sys.stdout.isatty():
        sys.stdout = Enduring(sys.stdout, "standard output", error)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
