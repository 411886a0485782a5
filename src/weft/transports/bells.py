"""Bells: how a worker of a host wakes another one that sleeps, and lets it be when it does not.

Who is about to sleep says so in shared memory, looks once more, and sleeps. Who has news writes them,
then looks whether anybody sleeps. A fence between the two keeps both from missing each other.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock

SCRIPT = 0
"""The bell of the thread that runs the script, for when it waits: for words of the arena, and for messages."""
BACKGROUND = 1
"""The bell of the thread that answers messages while the script computes."""
NUM_BELLS = 2

_barrier = Lock()


def fence() -> None:
    """Let all that was written before be seen before anything that is read after: a lock is an atomic operation."""
    with _barrier:
        pass


class Bells:
    """Every worker's bells: an eventfd each, and a word that says whether somebody waits for it."""

    def __init__(self, me: int, words: memoryview, lines: Sequence[int], eventfds: Sequence[Sequence[int]]) -> None:
        self._me = me
        self._words = words
        self._lines = lines
        self._eventfds = eventfds
        self._others = [worker for worker in range(len(lines)) if worker != me]

    def fileno(self, bell: int) -> int:
        return self._eventfds[self._me][bell]

    def ring(self, worker: int, *bells: int) -> None:
        """Wake a worker's threads that wait for these bells; call fence() before, once for all."""
        for bell in bells:
            if self._words[self._lines[worker] + bell]:
                os.eventfd_write(self._eventfds[worker][bell], 1)

    def ring_scripts(self) -> None:
        """Wake all other scripts that wait: there is news in the words."""
        fence()
        for worker in self._others:
            self.ring(worker, SCRIPT)

    def ring_own(self) -> None:
        """Wake this worker's own threads that wait, from a thread that has news for them."""
        fence()
        self.ring(self._me, SCRIPT, BACKGROUND)

    def listen(self, bell: int, *, enabled: bool = True) -> None:
        """Say whether this worker wants to hear a bell; look once more for news after that."""
        self._words[self._lines[self._me] + bell] = int(enabled)
        fence()

    def silence(self, bell: int) -> None:
        """Forget rings that were heard."""
        with suppress(BlockingIOError):
            os.eventfd_read(self.fileno(bell))
