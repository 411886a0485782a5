"""Scripts that take shares whose rounds change, and count what they commit."""

from collections import Counter
from collections.abc import Sequence

from weft.data.dealt_again import DealtAgain, Reached, RoundPart, ShareRounds


class Script:
    """One worker's script, which takes the parts of one share after another."""

    def __init__(self, rank: int, num_workers: int) -> None:
        self.rank = rank
        self.published = Reached(0, {})
        self.dealt = DealtAgain(rank, num_workers, lambda look: look(), self._publish)
        self.rounds: ShareRounds
        self.taken: list[RoundPart] = []
        """What it has taken of its share and not committed."""
        self.committed: Counter[tuple[int, int]] = Counter()
        """How often it has committed each (share, place)."""

    def _publish(self, reached: Reached) -> None:
        self.published = reached

    def begin(self, num_samples: int, batch_size: int, size: int | None = None) -> None:
        self.rounds = self.dealt.begin(num_samples, batch_size, False, size)

    @property
    def left(self) -> list[RoundPart]:
        return self.rounds.parts()

    def take(self) -> None:
        self.taken.append(self.left[0])
        self.rounds.take()

    def commit(self) -> None:
        self.dealt.commit()
        self.count()

    def count(self) -> None:
        for part in self.taken:
            self.committed.update((self.rounds.share, place) for place in part.places[: part.num_counted])
        self.taken.clear()


def scripts(num_workers: int) -> dict[int, Script]:
    return {rank: Script(rank, num_workers) for rank in range(num_workers)}


def all_committed(team: Sequence[Script]) -> Counter[tuple[int, int]]:
    return sum((script.committed for script in team), Counter())
