"""Workers are lost and come at any time: every sample is used once, or counted as unused."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from support.scripts.share_scripts import Script, all_committed, scripts

from weft.data.dealt_again import Reached


class Shifts:
    """Epochs of one share each, in which workers are at their own pace. A newcomer has a rank that was lost."""

    def __init__(self, num_workers: int, num_samples: int, batch_size: int, size: int | None, num_shares: int) -> None:
        self.num_workers, self.num_samples, self.num_shares = num_workers, num_samples, num_shares
        self._batch = batch_size, size
        self.team = scripts(num_workers)
        self.everybody = list(self.team.values())
        self.running = set(self.team)
        for rank in self.team:
            self.begin(rank)

    def begin(self, rank: int) -> None:
        dealt = self.team[rank].dealt
        dealt.begin_epoch(0, dealt.reached().begun)
        self.team[rank].begin(self.num_samples, *self._batch)

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
        self.begin(rank)

    def go_on(self, rank: int) -> None:
        """A script takes a batch, or commits it; at the end of a share it begins the next."""
        script = self.team[rank]
        if script.taken:
            script.commit()
        elif script.left:
            script.take()
        else:
            script.dealt.end(script.rounds)
            if script.dealt.reached().begun == self.num_shares:
                self.running.discard(rank)
            else:
                self.begin(rank)


@settings(max_examples=300, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    num_workers=st.integers(2, 5),
    extra=st.integers(0, 20),
    batch_size=st.integers(1, 3),
    size=st.none() | st.integers(1, 12),
    num_shares=st.integers(1, 4),
    chances=st.tuples(st.sampled_from([0.02, 0.1, 0.3]), st.sampled_from([0.02, 0.1, 0.3])),
)
def test_with_losses_and_newcomers_a_sample_is_used_once_or_counted_as_unused(
    seed: int,
    num_workers: int,
    extra: int,
    batch_size: int,
    size: int | None,
    num_shares: int,
    chances: tuple[float, float],
) -> None:
    shifts, chance = Shifts(num_workers, num_workers + extra, batch_size, size, num_shares), Random(seed)
    while shifts.running:
        rank = chance.choice(sorted(shifts.running))
        if len(shifts.running) > 1 and chance.random() < chances[0]:
            shifts.lose(rank)
        elif shifts.lost and len(shifts.running) == len(shifts.team) and chance.random() < chances[1]:
            shifts.take_in(shifts.lost[0])
        else:
            shifts.go_on(rank)
    committed = all_committed(shifts.everybody)
    assert max(committed.values()) == 1
    num_unused = max(script.dealt.num_unused for script in shifts.team.values())
    assert sum(committed.values()) + num_unused == shifts.num_begun * shifts.num_samples
