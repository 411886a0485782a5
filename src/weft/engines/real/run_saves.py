"""The saves of all workers: which worker writes which model, and which models may not be written."""

from collections.abc import Callable, Set

from weft.engines.real.barriers import Barrier, arrived
from weft.runtime.messages import Saves


class RunSaves:
    """The saves of a run, numbered as scripts make them. `tell` tells the user of models that may not be written."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self.barriers: dict[int, Barrier] = {}
        self._writing: dict[int, list[int]] = {}
        """The saves that a worker was chosen to write, until it sends something else; at the end, until `Concluded`."""
        self.unsaved: set[int | None] = set()
        """The numbers of saves that could not be written."""

    @property
    def saved(self) -> list[str]:
        """The paths to which models were saved, in order; without those that could not be written."""
        done = [barrier for number, barrier in self.barriers.items() if number not in self.unsaved]
        came = [message for barrier in done for message in barrier.came.values()]
        return list(dict.fromkeys(message.path for message in came if isinstance(message, Saves)))

    def take(self, rank: int, message: Saves, members: Set[int], *, is_alike: bool) -> bool:
        """Worker `rank` has come to a save; whether it is to write it."""
        barrier = self.barriers.setdefault(message.number, Barrier(0, True))
        barrier.came[rank] = message
        is_chosen = barrier.chooses(rank, members, is_alike=is_alike)
        if is_chosen:
            self._writing[rank] = [message.number]
        return is_chosen

    def has_written(self, rank: int) -> None:
        """Worker `rank` has sent something since it was told to write."""
        self._writing.pop(rank, None)

    def lose(self, rank: int) -> None:
        """Worker `rank` is lost."""
        for number in self._writing.pop(rank, ()):
            self._lack(number, f"worker {rank}, which was to save it, is lost")

    def end(self, first: int, members: Set[int]) -> dict[int, list[int]]:
        """All scripts have ended: by worker, the saves that it writes now, because none was chosen before.

        These are the ones to which worker `first` came; if that was its predecessor, the lowest other that came writes.
        """
        left: dict[int, list[int]] = {}
        for number, barrier in sorted(self.barriers.items()):
            if barrier.is_decided or first not in barrier.came.keys() | barrier.excused:
                continue
            if able := arrived(barrier, members):
                left.setdefault(min(able), []).append(number)
            else:
                self._lack(number, "the workers that were to save it are lost")
        self._writing |= left
        return left

    def _lack(self, number: int, why: str) -> None:
        self.unsaved.add(number)
        path = next(each.path for each in self.barriers[number].came.values() if isinstance(each, Saves))
        self._tell(f"'{path}' may not be written: {why}")
