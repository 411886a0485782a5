"""A supervisor that changes views, with the test as its workers."""

from collections.abc import Iterable

from weft.data.share_records import Reached
from weft.engines.real.views import Views
from weft.runtime.messages import Message
from weft.runtime.view_messages import Frozen, ViewTaken

NEAR, FAR, FARTHER = Reached(1, {0: 3}), Reached(1, {0: 5}), Reached(2, {1: 5})


class Talk:
    """Views of a run, and what each member was sent since the last look."""

    def __init__(self, num_workers: int) -> None:
        self._sent: list[tuple[int, Message]] = []
        self.views = Views(num_workers, lambda *said: self._sent.append(said))

    def lay_out(self, ranks: Iterable[int]) -> None:
        for rank in ranks:
            self.views.lay_out(rank)

    def lose(self, rank: int) -> list[tuple[int, Message]]:
        self.views.lose(rank, f"worker {rank} died")
        return self._said()

    def depart(self, rank: int) -> list[tuple[int, Message]]:
        self.views.depart(rank, f"worker {rank} left")
        return self._said()

    def bury(self, rank: int) -> list[tuple[int, Message]]:
        self.views.bury(rank, f"worker {rank} has ended")
        return self._said()

    def welcome(self, *newcomers: int) -> list[tuple[int, Message]]:
        self.views.welcome(newcomers, "they joined")
        return self._said()

    def hear(
        self, rank: int, view: int, sent: dict[int, int], places: tuple[int, ...] = ()
    ) -> list[tuple[int, Message]]:
        is_told = self.views.hear(rank, Frozen(view, sent, list(places)))
        said = self._said()
        assert is_told == bool(said)
        return said

    def go_on_without(self, *lost: int) -> None:
        """The view is told, and nobody has taken it."""
        for rank in lost:
            self.lose(rank)
        for rank in list(self.views.members):
            self.hear(rank, self.views.view, {})

    def settle(self, *newcomers: int) -> list[tuple[int, Message]]:
        """The view is told, and all take it: what they are then sent."""
        for rank in self.views.members:
            if rank not in newcomers:
                self.hear(rank, self.views.view, {})
        said: list[tuple[int, Message]] = []
        for rank in self.views.members:
            assert not self.views.is_settled
            said = self.take(rank, self.views.view, NEAR, {})
        assert self.views.is_settled
        return said

    def take(self, rank: int, view: int, reached: Reached, lost: dict[int, Reached]) -> list[tuple[int, Message]]:
        self.views.take(rank, ViewTaken(view, reached, lost))
        return self._said()

    def _said(self) -> list[tuple[int, Message]]:
        sent, self._sent = self._sent, []
        return sent
