"""Workers are lost and come at any time: every sample is used once, or counted as unused."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from support.scripts.share_scripts import Epochs, Shifts, all_committed


@settings(max_examples=300, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    num_workers=st.integers(2, 5),
    extra=st.integers(0, 20),
    batch_size=st.integers(1, 3),
    size=st.none() | st.integers(1, 12),
    num_epochs=st.integers(1, 3),
    per_epoch=st.integers(1, 2),
    chances=st.tuples(st.sampled_from([0.02, 0.1, 0.3]), st.sampled_from([0.02, 0.1, 0.3])),
)
def test_with_losses_and_newcomers_a_sample_is_used_once_or_counted_as_unused(
    seed: int,
    num_workers: int,
    extra: int,
    batch_size: int,
    size: int | None,
    num_epochs: int,
    per_epoch: int,
    chances: tuple[float, float],
) -> None:
    shifts = Shifts(num_workers, Epochs(num_workers + extra, batch_size, size, num_epochs * per_epoch, per_epoch))
    shifts.go_on_at_random(Random(seed), chances)
    committed = all_committed(shifts.everybody)
    assert max(committed.values()) == 1
    num_unused = max(script.dealt.num_unused for script in shifts.team.values())
    assert sum(committed.values()) + num_unused == shifts.num_begun * shifts.epochs.num_samples
