"""Runs go on from checkpoints, with as many workers or with others: every sample is used once, or counted as unused."""

from collections import Counter
from random import Random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from support.scripts.share_scripts import Epochs, Script, Shifts, all_committed

from weft.data.resumed_shares import StoredShares, resumed_shares, to_store
from weft.data.share_records import HandedShares, Reached


def stored(script: Script) -> StoredShares:
    """A worker's shares as they are written into a manifest, and read from it."""
    written = msgspec.json.encode((to_store(script.dealt.hand_over()), script.dealt.to_keep))
    return StoredShares(*msgspec.json.decode(written, type=tuple[HandedShares, Reached]))


def rest(shifts: Shifts) -> None:
    """All stop between two batches, as for a checkpoint."""
    for script in shifts.team.values():
        script.commit()


def resume(shifts: Shifts, num_workers: int) -> Shifts:
    """The run that goes on from a checkpoint of this one."""
    kept = [stored(shifts.team[rank]) for rank in sorted(shifts.team)]
    return Shifts(num_workers, shifts.epochs, [resumed_shares(kept, rank, num_workers) for rank in range(num_workers)])


@settings(max_examples=400, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    numbers=st.lists(st.integers(1, 5), min_size=2, max_size=4),
    extra=st.integers(0, 20),
    batch_size=st.integers(1, 3),
    size=st.none() | st.integers(1, 12),
    num_epochs=st.integers(1, 4),
    per_epoch=st.integers(1, 2),
    chances=st.tuples(st.sampled_from([0.0, 0.02, 0.2]), st.sampled_from([0.02, 0.3])),
    later_loss=st.sampled_from([0.0, 0.1]),
    num_turns=st.integers(0, 60),
)
def test_runs_that_go_on_with_any_number_of_workers_use_a_sample_once_or_count_it_as_unused(
    seed: int,
    numbers: list[int],
    extra: int,
    batch_size: int,
    size: int | None,
    num_epochs: int,
    per_epoch: int,
    chances: tuple[float, float],
    later_loss: float,
    num_turns: int,
) -> None:
    """Checkpoint after checkpoint; each run has another number of workers, perhaps the one that was left."""
    chance = Random(seed)
    epochs = Epochs(max(numbers) + extra, batch_size, size, num_epochs * per_epoch, per_epoch)
    shifts = Shifts(numbers[0], epochs)
    everybody: list[Script] = []
    for number in numbers[1:]:
        shifts.go_on_at_random(chance, chances, num_turns)
        rest(shifts)
        everybody += shifts.everybody
        shifts = resume(shifts, number)
        chances = later_loss, chances[1]
    shifts.go_on_at_random(chance, chances)
    committed = all_committed(everybody + shifts.everybody)
    assert max(committed.values()) == 1
    num_unused = max(script.dealt.num_unused for script in shifts.team.values())
    num_missing = epochs.num_shares * epochs.num_samples - sum(committed.values()) - num_unused
    assert num_missing >= 0 if later_loss else num_missing == 0, "of ended epochs, what is lost later is not counted"


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    num_workers=st.integers(2, 5),
    extra=st.integers(0, 20),
    batch_size=st.integers(1, 3),
    size=st.none() | st.integers(1, 12),
    per_epoch=st.integers(1, 3),
    chances=st.tuples(st.sampled_from([0.0, 0.02, 0.2]), st.sampled_from([0.02, 0.3])),
    num_turns=st.integers(0, 40),
)
def test_as_many_workers_go_on_exactly_where_each_was(
    seed: int,
    num_workers: int,
    extra: int,
    batch_size: int,
    size: int | None,
    per_epoch: int,
    chances: tuple[float, float],
    num_turns: int,
) -> None:
    """The run that goes on, and the one that was never interrupted, commit the same samples on the same workers. No
    worker ends before the checkpoint: those that have ended leave, and then all is dealt anew."""
    shifts = Shifts(num_workers, Epochs(num_workers + extra, batch_size, size, num_turns + 1, per_epoch))
    shifts.go_on_at_random(Random(seed), chances, num_turns)
    rest(shifts)
    others = resume(shifts, len(shifts.team))
    places = dict(zip(sorted(shifts.team), sorted(others.team), strict=True))
    before = {rank: Counter(script.committed) for rank, script in shifts.team.items()}
    for rank in sorted(shifts.running):
        while rank in shifts.running:
            shifts.go_on(rank)
        while places[rank] in others.running:
            others.go_on(places[rank])
    assert others.running == set()
    for rank, place in places.items():
        assert others.team[place].committed == shifts.team[rank].committed - before[rank]
