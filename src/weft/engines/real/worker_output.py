"""What a worker process writes, line by line."""

import os
from collections.abc import Callable

CHUNK_BYTES = 1 << 16
HEAD_BYTES, TAIL_BYTES = 48 << 10, 16 << 10
"""What is shown of a line that is longer than both: a worker's output must fill neither memory nor screen."""


class Output:
    """One pipe of a worker; hands whole lines to whoever shows them."""

    def __init__(self, pipe: int, show: Callable[[str], None]) -> None:
        os.set_blocking(pipe, False)
        self._pipe = pipe
        self._show = show
        self._line = b""
        self._num_left_out = 0
        """Bytes of the line that are gone, between its controller and its tail."""
        self.is_closed = False

    def fileno(self) -> int:
        return self._pipe

    def read(self) -> bool:
        """Take what has come; False at the end."""
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
