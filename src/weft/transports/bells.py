"""Bells: how a worker of a host wakes a thread of another worker (eventfd), without a system call if it does not sleep.

Each thread that may sleep has a listening word in the arena, which only its own process writes, and an eventfd:

| step | the thread that is about to sleep  | the thread that has news                       |
|------|------------------------------------|------------------------------------------------|
| 1    | writes its listening word = 1      | writes the news: words of the arena, or a ring |
| 2    | fence()                            | fence()                                        |
| 3    | reads the news once more           | reads the other's listening word               |
| 4    | sleeps in poll() if there are none | writes the eventfd if the word is 1            |

Either the sleeper sees the news, or the other sees the word. Without the fences, x86-64 could do the read of step 3
before the write of step 1 (it reorders a store with a later load, and nothing else), and both would miss each other.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock

SCRIPT = 0
"""The bell of the script's thread, which listens while it waits for words of the arena or for messages."""
BACKGROUND = 1
"""The bell of the background driver's thread, which listens while the script computes."""
NUM_BELLS = 2

_barrier = Lock()


def fence() -> None:
    """A full memory barrier: writes before it are visible to other processes before any later read is done.

    Python has no barrier of its own. Taking a free lock is an atomic read-modify-write, which on x86-64 is a full one.
    """
    with _barrier:
        pass


class Bells:
    """The bells of all workers of a host: for each an eventfd, and a word that says whether a thread listens for it."""

    def __init__(self, me: int, words: memoryview, lines: Sequence[int], eventfds: Sequence[Sequence[int]]) -> None:
        self._me = me
        self._words = words
        self._lines = lines
        self._eventfds = eventfds
        others = [worker for worker in range(len(lines)) if worker != me]
        self._other_scripts = [(lines[worker] + SCRIPT, eventfds[worker][SCRIPT]) for worker in others]
        """Listening word and eventfd of the script's thread of each other worker."""

    def fileno(self, bell: int) -> int:
        return self._eventfds[self._me][bell]

    def ring(self, worker: int, *bells: int) -> None:
        """Wake the threads of `worker` that listen for these bells. The caller has to call fence() before."""
        for bell in bells:
            if self._words[self._lines[worker] + bell]:
                os.eventfd_write(self._eventfds[worker][bell], 1)

    def ring_scripts(self) -> None:
        """Wake the script's threads of all other workers that listen: there is news in the words of the arena."""
        fence()
        words = self._words
        for word, eventfd in self._other_scripts:
            if words[word]:
                os.eventfd_write(eventfd, 1)

    def ring_own(self) -> None:
        """Wake this worker's own threads that listen; called by a third thread that has news for them."""
        fence()
        self.ring(self._me, SCRIPT, BACKGROUND)

    def listen(self, bell: int, *, enabled: bool = True) -> None:
        """Set or clear this worker's listening word. After setting it, the caller has to look for news once more."""
        self._words[self._lines[self._me] + bell] = int(enabled)
        fence()

    def silence(self, bell: int) -> None:
        """Reset the eventfd, so that rings of the past do not end the next sleep."""
        with suppress(BlockingIOError):
            os.eventfd_read(self.fileno(bell))
