"""What workers print before they join: worker 0's at once, the others' a little later, or never if they left alike.

Where all scripts print their usage and leave, one of them is enough.
"""

from collections.abc import Callable, Sequence

from weft.engines.real import timeouts

LINES_MAX = 1000
"""A worker that prints more is no echo."""

Line = tuple[bool, str]
"""Whether it went to standard error, and its text."""


class Echoes:
    """Lines of all workers on their way to `show`, which takes the rank, the text and whether it is of an error."""

    def __init__(self, num_workers: int, show: Callable[[int, str, bool], None]) -> None:
        self._show = show
        self._first: list[Line] = []
        """Worker 0's, which are shown already."""
        self._held: dict[int, list[Line]] = {rank: [] for rank in range(1, num_workers)}
        """Of those that have not joined."""
        self._since_s: dict[int, float] = {}

    def take(self, rank: int, text: str, is_error: bool, now_s: float) -> None:
        """Take a line that a worker wrote."""
        held = self._held.get(rank)
        if held is None:
            if rank == 0 and self._held and len(self._first) <= LINES_MAX:
                self._first.append((is_error, text))
            self._show(rank, text, is_error)
            return
        held.append((is_error, text))
        self._since_s.setdefault(rank, now_s)
        if len(held) > LINES_MAX:
            self.release(rank)

    def release(self, rank: int) -> None:
        """Show what is held of a worker, and all that follows at once: it has joined."""
        for is_error, text in self._held.pop(rank, []):
            self._show(rank, text, is_error)

    def check(self, now_s: float) -> None:
        """Show what has been held for long enough."""
        for rank in [rank for rank in self._held if now_s - self._since_s.get(rank, now_s) >= timeouts.ECHO_HELD_S]:
            self.release(rank)

    def end(self, *, have_left: bool) -> None:
        """Nobody will print any more; if scripts `have_left` of their own will, what is shown already is not again."""
        shown = [_by_stream(self._first)] if have_left else []
        for rank, lines in list(self._held.items()):
            if _by_stream(lines) in shown:
                del self._held[rank]
            elif have_left:
                shown.append(_by_stream(lines))
            self.release(rank)


def _by_stream(lines: Sequence[Line]) -> list[Line]:
    """Two pipes keep no order between each other."""
    return sorted(lines, key=lambda line: line[0])
