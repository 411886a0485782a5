"""A rendezvous in memory, for several threads that play the processes of a run."""

import time
from collections import Counter
from collections.abc import Sequence
from threading import Condition

from weft.core.errors import TransportError


class MemoryBoard:
    """Notes that the threads of one process leave for each other."""

    def __init__(self) -> None:
        self.notes: dict[str, bytes] = {}
        self.claims: Counter[str] = Counter()
        self._changed = Condition()

    def post(self, key: str, value: bytes) -> None:
        with self._changed:
            self.notes[key] = value
            self._changed.notify_all()

    def read(self, keys: Sequence[str], timeout_s: float) -> list[bytes]:
        deadline_s = time.monotonic() + timeout_s
        with self._changed:
            while missing := [key for key in keys if key not in self.notes]:
                if not self._changed.wait(deadline_s - time.monotonic()):
                    raise TransportError(
                        f"after {timeout_s:g} s no process had posted {', '.join(map(repr, missing))}."
                    )
            return [self.notes[key] for key in keys]

    def claim(self, key: str) -> int:
        with self._changed:
            self.claims[key] += 1
            return self.claims[key]
