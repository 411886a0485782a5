"""Splits what a worker process writes to stdout and stderr into lines."""

import os
from collections.abc import Callable

CHUNK_BYTES = 1 << 16
HEAD_BYTES, TAIL_BYTES = 48 << 10, 16 << 10
"""Of a line that is longer than both together, only its first and last bytes are kept and shown."""


class Output:
    """The reading end of one output pipe of a worker; calls `show` with each complete line."""

    def __init__(self, pipe: int, show: Callable[[str], None]) -> None:
        os.set_blocking(pipe, False)
        self._pipe = pipe
        self._show = show
        self._line = b""
        self._num_left_out = 0
        """Bytes of the line that were dropped between its head and its tail."""
        self.is_closed = False

    def fileno(self) -> int:
        return self._pipe

    def read(self) -> bool:
        """Read what is available without blocking; False at end of file."""
        try:
            raw = os.read(self._pipe, CHUNK_BYTES)
        except BlockingIOError:
            return True
        *ends, rest = raw.split(b"\n")
        for end in ends:
            self._add(end)
            self._show_line()
        self._add(rest)
        if not raw and self._line:
            self._show_line()
        return bool(raw)

    def _add(self, piece: bytes) -> None:
        self._line += piece
        if (excess := len(self._line) - HEAD_BYTES - TAIL_BYTES) > 0:
            self._num_left_out += excess
            self._line = self._line[:HEAD_BYTES] + self._line[-TAIL_BYTES:]

    def _show_line(self) -> None:
        line, num_left_out = self._line, self._num_left_out
        self._line, self._num_left_out = b"", 0
        if num_left_out:
            line = line[:HEAD_BYTES] + b" ... (%d bytes left out) ... " % num_left_out + line[HEAD_BYTES:]
        self._show(line.decode(errors="replace").rstrip("\r"))

    def close(self) -> None:
        self.is_closed = True
        os.close(self._pipe)
