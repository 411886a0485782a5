"""Scripts that take shares whose rounds change, and count what they commit."""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from weft.data.dealt_again import DealtAgain, RoundPart, ShareRounds
from weft.data.share_records import HandedShares, Reached


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


class Epochs(NamedTuple):
    """The shares of a run, of `num_samples` samples each, and how many of them an epoch has."""

    num_samples: int
    batch_size: int
    size: int | None
    num_shares: int
    per_epoch: int = 1


class Shifts:
    """Workers at their own pace in the shares of a run. A newcomer has a rank that was lost."""

    def __init__(self, num_workers: int, epochs: Epochs, handed: Sequence[HandedShares] = ()) -> None:
        """`handed`: what each worker goes on with, if the run goes on from a checkpoint."""
        self.num_workers, self.epochs = num_workers, epochs
        self.team = scripts(num_workers)
        self.everybody = list(self.team.values())
        self.running = set(self.team)
        for script, shares in zip(self.team.values(), handed, strict=False):
            script.dealt.take_over(shares)
        for rank in self.team:
            self._begin(rank)

    def _begin(self, rank: int) -> None:
        """The script begins its next share, or has ended."""
        dealt, epochs = self.team[rank].dealt, self.epochs
        if not dealt.reached().begun % epochs.per_epoch:
            dealt.begin_epoch(0, dealt.reached().begun // epochs.per_epoch)
        if dealt.reached().begun == epochs.num_shares:
            self.running.discard(rank)
        else:
            self.team[rank].begin(epochs.num_samples, epochs.batch_size, epochs.size)

    @property
    def num_begun(self) -> int:
        return max(script.dealt.reached().begun for script in self.everybody)

    @property
    def lost(self) -> list[int]:
        return sorted(set(range(self.num_workers)) - self.team.keys())

    def _reached(self) -> dict[int, Reached]:
        return {rank: self.team[rank].dealt.reached() for rank in self.running}

    def lose(self, rank: int) -> None:
        script = self.team.pop(rank)
        self.running.discard(rank)
        for other in self.team.values():
            other.dealt.lose({rank: script.published}, self._reached(), self.num_begun)

    def take_in(self, rank: int) -> None:
        """All rest, and a newcomer comes in, if its sponsor is in a share."""
        for other in self.team.values():
            other.commit()
        sponsor = self.team[min(self.team)].dealt
        if not sponsor.can_be_taken_over:
            return
        newcomer = self.team[rank] = Script(rank, self.num_workers)
        newcomer.dealt.take_over(sponsor.hand_over())
        self.everybody.append(newcomer)
        self.running.add(rank)
        members = self._reached()
        for other in self.team.values():
            other.dealt.welcome([rank], members, self.num_begun)
        self._begin(rank)

    def go_on(self, rank: int) -> None:
        """A script takes a batch, or commits it; at the end of a share it begins the next."""
        script = self.team[rank]
        if script.taken:
            script.commit()
        elif script.left:
            script.take()
        else:
            script.dealt.end(script.rounds)
            self._begin(rank)

    def go_on_at_random(self, chance: Random, chances: tuple[float, float], num_turns: int | None = None) -> None:
        """Scripts go on, are lost and come, with these chances, for so many turns or until all have ended."""
        while self.running and num_turns != 0:
            rank = chance.choice(sorted(self.running))
            if len(self.running) > 1 and chance.random() < chances[0]:
                self.lose(rank)
            elif self.lost and len(self.running) == len(self.team) and chance.random() < chances[1]:
                self.take_in(self.lost[0])
            else:
                self.go_on(rank)
            num_turns = None if num_turns is None else num_turns - 1
