"""Removes repeated output: if all scripts print the same usage message and exit, it is shown once.

Worker 0's lines are shown at once; those of another worker are held until it joins, or for ECHO_HELD_S.
"""

from collections.abc import Callable, Sequence

from weft.engines.real import timeouts

LINES_MAX = 1000
"""If a worker prints more lines, they are no longer held: it does not just repeat a usage message."""

Line = tuple[bool, str]
"""Whether the line went to standard error, and its text."""


class Echoes:
    """Passes lines of all workers to `show`, which takes the rank, the text, and whether it went to standard error."""

    def __init__(self, num_workers: int, show: Callable[[int, str, bool], None]) -> None:
        self._show = show
        self._first: list[Line] = []
        """Lines of worker 0, which have been shown already."""
        self._held: dict[int, list[Line]] = {rank: [] for rank in range(1, num_workers)}
        """Held lines of workers that have not joined, by rank."""
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
        """Show the held lines of worker `rank`, and from now on each line at once: it has joined."""
        for is_error, text in self._held.pop(rank, []):
            self._show(rank, text, is_error)

    def check(self, now_s: float) -> None:
        """Show lines that have been held for ECHO_HELD_S."""
        for rank in [rank for rank in self._held if now_s - self._since_s.get(rank, now_s) >= timeouts.ECHO_HELD_S]:
            self.release(rank)

    def end(self, *, have_left: bool) -> None:
        """All workers have ended: show what is held; if a script called sys.exit (`have_left`), without repetitions."""
        shown = [_by_stream(self._first)] if have_left else []
        for rank, lines in list(self._held.items()):
            if _by_stream(lines) in shown:
                del self._held[rank]
            elif have_left:
                shown.append(_by_stream(lines))
            self.release(rank)


def _by_stream(lines: Sequence[Line]) -> list[Line]:
    """Lines sorted by stream: the order between lines of two pipes is not defined."""
    return sorted(lines, key=lambda line: line[0])
