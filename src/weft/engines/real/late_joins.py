"""Newcomers' scripts call weft.join while the others train: they are answered at once with what all were told."""

from collections.abc import Callable, Sequence

from weft.engines.real.layout_check import check_layouts
from weft.runtime.messages import Message, Order, ScriptJoined, Welcome


class LateJoins:
    """What workers were told when they joined, and how far newcomers are in joining."""

    def __init__(self, send: Callable[[int, Message], None]) -> None:
        self._send = send
        self._layouts: list[list[str]] = []
        """What joined, one model after another."""
        self.orders: dict[int, Order] = {}
        """The order of parameters of each worker that has said it."""
        self._order: Order | None = None
        """The one that all were told."""
        self._num_joined: dict[int, int] = {}

    def remember(self, layout: Sequence[str]) -> None:
        """All workers have joined with this layout, which is of one model more than the last."""
        self._layouts.append(list(layout))

    def choose(self, first: int) -> Order | None:
        """Choose the order of worker `first` for all; None if it is not known yet, or one has been chosen before."""
        if self._order is not None:
            return None
        self._order = self.orders.get(first)
        return self._order

    def expect(self, rank: int) -> None:
        """A process is started that is to take the place of worker `rank`, which was lost."""
        self._num_joined[rank] = 0

    def join(self, rank: int, message: ScriptJoined, welcome: Welcome) -> None:
        """The script of a newcomer has called weft.join, perhaps with a further model. It waits for nobody."""
        number, self._num_joined[rank] = self._num_joined[rank], self._num_joined[rank] + 1
        check_layouts(rank, self._layouts[min(number, len(self._layouts) - 1)], message.layout)
        self._send(rank, welcome)
        if self._order is not None and not number:
            self._send(rank, self._order)
