"""Static shares: every global batch is split evenly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.errors import ConfigError
from weft.data.static import Span, global_batches, share_of


def sizes(spans: list[Span]) -> list[int]:
    return [stop - start for start, stop in spans]


def test_a_global_batch_has_the_batch_size_of_every_worker() -> None:
    assert global_batches(24, num_workers=3, batch_size=4) == [(0, 12), (12, 24)]


def test_the_last_global_batch_may_be_smaller() -> None:
    assert sizes(global_batches(28, num_workers=3, batch_size=4)) == [12, 12, 4]


def test_a_last_batch_with_fewer_samples_than_workers_joins_the_one_before() -> None:
    assert sizes(global_batches(26, num_workers=3, batch_size=4)) == [12, 14]


@pytest.mark.parametrize("num_samples", [26, 28])
def test_the_last_smaller_batch_is_dropped_when_asked(num_samples: int) -> None:
    assert sizes(global_batches(num_samples, num_workers=3, batch_size=4, drop_last=True)) == [12, 12]


def test_a_full_last_batch_and_an_only_batch_are_never_dropped() -> None:
    assert sizes(global_batches(24, 3, 4, drop_last=True)) == [12, 12]
    assert sizes(global_batches(5, 3, 4, drop_last=True)) == [5]


def test_a_global_batch_that_the_run_names_is_shared_by_all_whatever_their_own_batch_size() -> None:
    assert sizes(global_batches(28, num_workers=3, batch_size=4, global_batch=10)) == [10, 10, 8]
    assert sizes(global_batches(22, num_workers=3, batch_size=4, global_batch=10)) == [10, 12]
    assert sizes(global_batches(22, num_workers=3, batch_size=4, drop_last=True, global_batch=10)) == [10, 10]


@pytest.mark.parametrize("batch_size", [0, -3])
def test_a_batch_without_samples_is_refused(batch_size: int) -> None:
    message = rf"^batch_size is {batch_size}, but a step needs at least 1 sample.\n  Use batch_size=1.$"
    with pytest.raises(ConfigError, match=message):
        global_batches(10, 2, batch_size)


@pytest.mark.parametrize(("num_samples", "fit"), [(3, 3), (0, 1)])
def test_fewer_samples_than_workers_are_refused(num_samples: int, fit: int) -> None:
    message = (
        rf"^there are {num_samples} samples for 4 workers, and each needs at least 1 in a step.\n"
        rf"  Use at most {fit} workers, or more data.$"
    )
    with pytest.raises(ConfigError, match=message):
        global_batches(num_samples, 4, 8)


@given(num_samples=st.integers(1, 500), num_workers=st.integers(1, 20), batch_size=st.integers(1, 40))
def test_each_sample_is_seen_once_and_every_worker_has_one_in_each_step(
    num_samples: int, num_workers: int, batch_size: int
) -> None:
    if num_samples < num_workers:
        num_samples += num_workers
    spans = global_batches(num_samples, num_workers, batch_size)
    seen: list[int] = []
    for span in spans:
        shares = [share_of(span, rank, num_workers) for rank in range(num_workers)]
        counts = sizes(shares)
        assert min(counts) >= 1
        assert max(counts) - min(counts) <= 1
        seen += [sample for start, stop in shares for sample in range(start, stop)]
    assert seen == list(range(num_samples))
