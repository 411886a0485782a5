"""The journal of a shared update: the old values of the stretch that a worker is updating, so that it can be undone.

A worker updates one piece of its stretches after the other. Before each it copies the old values, of parameters and
optimizer state, to its journal; the next piece overwrites them, so the journal stays in the cache.

| word JOURNAL of a worker | means                                                                |
|--------------------------|----------------------------------------------------------------------|
| 2 k                      | its pieces before `k` are updated, and no other is touched           |
| 2 k + 1                  | its piece `k` may be half updated; its old values are in the journal |

The word is written after what it announces (a fence). If the worker dies, another undoes the piece that was being
updated, and goes on in the dead one's place: with its journal and its word, so that it may die, too.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.store.arena import Arena
from weft.transports.bells import fence

JOURNAL = 7
"""The word of a worker's own line that says how far its update is."""


class Journal:
    """The journals of all workers of a host, as one of them uses them."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena

    def _line(self, worker: int) -> int:
        return self._arena.worker_line(worker) + JOURNAL

    def begin(self, worker: int) -> None:
        """The worker's update begins: nothing is touched yet."""
        self._arena.words[self._line(worker)] = 0

    def keep(self, worker: int, piece: int, arrays: Sequence[Any]) -> None:
        """A piece is about to be updated: `arrays` are what will change."""
        for array, old in zip(arrays, self._places(worker, arrays), strict=True):
            np.copyto(old, array)
        fence()
        self._arena.words[self._line(worker)] = 2 * piece + 1

    def done(self, worker: int, piece: int) -> None:
        """A piece is updated."""
        fence()
        self._arena.words[self._line(worker)] = 2 * piece + 2

    def reached(self, worker: int) -> int:
        """The first piece that the worker has not wholly updated."""
        return int(self._arena.words[self._line(worker)]) // 2

    def is_torn(self, worker: int) -> bool:
        """Whether that piece may be half updated."""
        return bool(self._arena.words[self._line(worker)] % 2)

    def undo(self, worker: int, arrays: Sequence[Any]) -> None:
        """Write the old values back to `arrays`, which are those that were kept."""
        for array, old in zip(arrays, self._places(worker, arrays), strict=True):
            np.copyto(array, old)

    def _places(self, worker: int, arrays: Sequence[Any]) -> list[Any]:
        memory, start, places = self._arena.journal(worker), 0, []
        for array in arrays:
            places.append(memory[start : start + array.nbytes].view(array.dtype))
            start += -(-array.nbytes // 64) * 64
        return places


class JournalOf:
    """The journal of one worker: its own, or that of a lost one in whose place it goes on."""

    def __init__(self, journal: Journal, worker: int) -> None:
        self._journal = journal
        self._worker = worker

    def keep(self, piece: int, arrays: Sequence[Any]) -> None:
        self._journal.keep(self._worker, piece, arrays)

    def done(self, piece: int) -> None:
        self._journal.done(self._worker, piece)
