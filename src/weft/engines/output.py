"""What a worker process writes, line by line."""

import os
from collections.abc import Callable

CHUNK_BYTES = 1 << 16
LINE_BYTES_MAX = 1 << 16
"""A longer line is shown in pieces: a worker's output must not fill the launcher's memory."""


class Output:
    """One pipe of a worker; hands whole lines to whoever shows them."""

    def __init__(self, pipe: int, show: Callable[[str], None]) -> None:
        os.set_blocking(pipe, False)
        self._pipe = pipe
        self._show = show
        self._rest = b""
        self.is_closed = False

    def fileno(self) -> int:
        return self._pipe

    def read(self) -> bool:
        """Take what has come; False at the end."""
        try:
            raw = os.read(self._pipe, CHUNK_BYTES)
        except BlockingIOError:
            return True
        *lines, self._rest = (self._rest + raw).split(b"\n")
        if not raw or len(self._rest) > LINE_BYTES_MAX:
            lines, self._rest = ([*lines, self._rest] if self._rest else lines), b""
        for line in lines:
            self._show(line.decode(errors="replace").rstrip("\r"))
        return bool(raw)

    def close(self) -> None:
        self.is_closed = True
        os.close(self._pipe)
