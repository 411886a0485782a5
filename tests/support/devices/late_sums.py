"""A library that sums late, as devices do: it takes what it is given at once, and brings the result when it likes."""

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from weft.core.actions import MAX


class LateSum:
    """One sum of one process. Its memory is not a number until it is done, so whoever reads it early will notice."""

    def __init__(self, array: np.ndarray, op: str) -> None:
        self.array = array
        self.op = op
        self.taken = array.copy()
        array.fill(np.nan)
        self.is_done = False

    def end(self, total: np.ndarray) -> None:
        assert np.isnan(self.array).all(), "somebody wrote to memory that was under way"
        self.array[:] = total
        self.is_done = True


class LateSums:
    """One process's part."""

    def __init__(self, stream: "Stream", rank: int) -> None:
        self._stream = stream
        self._rank = rank
        self.begun: list[LateSum] = []
        self.is_closed = False
        self.heard: dict[str, bytes] = {}
        self._unsaid: list[tuple[str, bytes]] = []

    def meet(self, wake: Callable[[], None]) -> None:
        if str(self._rank) not in self.heard:
            self.heard[str(self._rank)] = b"here"
            self._unsaid.append((str(self._rank), b"here"))

    def notes(self) -> list[tuple[str, bytes]]:
        unsaid, self._unsaid = self._unsaid, []
        return unsaid

    def hear(self, name: str, value: bytes) -> None:
        self.heard[name] = value

    @property
    def is_ready(self) -> bool:
        return len(self.heard) == len(self._stream.processes)

    def gradients(self, num_elements: int, itemsize: int) -> np.ndarray:
        return np.zeros(num_elements, f"f{itemsize}")

    def beside(self, array: np.ndarray, itemsize: int) -> np.ndarray:
        return np.zeros(len(array), f"f{itemsize}")

    def copy(self, source: np.ndarray, into: np.ndarray) -> None:
        np.copyto(into, source, casting="same_kind")

    def begin(self, given: np.ndarray, into: np.ndarray, share: float | None, op: str) -> LateSum:
        assert self.is_ready
        if share is None:
            into.fill(-np.inf if op == MAX else 0.0)
        else:
            np.multiply(given, 1.0 if op == MAX else share, out=into, dtype=into.dtype)
        self.begun.append(LateSum(into, op))
        return self.begun[-1]

    def close(self) -> None:
        self.is_closed = True


class Stream:
    """What all processes have begun is done in the order in which they began it: the n-th of one is that of all."""

    def __init__(self, num_processes: int) -> None:
        self.processes = [LateSums(self, rank) for rank in range(num_processes)]
        self.num_done = 0

    def end_one(self) -> bool:
        """Finish the oldest sum that all have begun."""
        if any(len(each.begun) <= self.num_done for each in self.processes):
            return False
        sums = [each.begun[self.num_done] for each in self.processes]
        assert len({(each.op, each.array.shape) for each in sums}) == 1, "processes began different sums"
        taken = [each.taken for each in sums]
        total = np.max(taken, axis=0) if sums[0].op == MAX else np.sum(taken, axis=0)
        for each in sums:
            each.end(total)
        self.num_done += 1
        return True


class Notes:
    """Notes between several workers in one process: in order from one to another, and late."""

    def __init__(self, num_workers: int) -> None:
        self.ends = [NotesEnd(self, rank) for rank in range(num_workers)]
        self.under_way: dict[tuple[int, int], list[bytes]] = {}

    def carry_one(self, chance: Random) -> bool:
        """Deliver the oldest note between two workers."""
        waiting = [pair for pair, notes in self.under_way.items() if notes]
        if not waiting:
            return False
        source, target = chance.choice(waiting)
        self.ends[target].on_note(source, self.under_way[source, target].pop(0))
        return True


class NotesEnd:
    """As much of a worker's post as reductions need."""

    def __init__(self, notes: Notes, rank: int) -> None:
        self._notes = notes
        self._rank = rank
        self.on_note: Any = None

    def tell(self, me: int, to: int, note: bytes) -> None:
        assert me == self._rank
        assert to != me
        self._notes.under_way.setdefault((me, to), []).append(note)
