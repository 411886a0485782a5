"""Dealt shares: portions of the whole data set."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.errors import ConfigError
from weft.data.dealt import portions


def test_a_portion_has_the_batch_size_of_the_loader_and_the_last_may_be_smaller() -> None:
    assert portions(10, num_workers=3, batch_size=4) == [(0, 4), (4, 8), (8, 10)]


def test_the_last_smaller_portion_is_dropped_when_asked_but_never_the_only_one() -> None:
    assert portions(10, 3, 4, drop_last=True) == [(0, 4), (4, 8)]
    assert portions(8, 3, 4, drop_last=True) == [(0, 4), (4, 8)]
    assert portions(3, 3, 4, drop_last=True) == [(0, 3)]


def test_a_global_batch_that_the_run_names_is_what_all_workers_portions_make_up() -> None:
    assert portions(10, num_workers=3, batch_size=4, global_batch=15) == [(0, 5), (5, 10)]
    assert portions(2, num_workers=3, batch_size=4, global_batch=2) == [(0, 1), (1, 2)]


def test_there_may_be_fewer_portions_than_workers_or_none() -> None:
    assert portions(2, num_workers=5, batch_size=4) == [(0, 2)]
    assert portions(0, num_workers=5, batch_size=4) == []


def test_a_portion_without_samples_is_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        portions(10, 2, 0)
    assert str(refused.value) == "batch_size is 0, but a step needs at least 1 sample.\n  Use batch_size=1."


@given(num_samples=st.integers(0, 200), num_workers=st.integers(1, 9), batch_size=st.integers(1, 40))
def test_every_sample_is_in_one_portion(num_samples: int, num_workers: int, batch_size: int) -> None:
    spans = portions(num_samples, num_workers, batch_size)
    assert [sample for start, stop in spans for sample in range(start, stop)] == list(range(num_samples))
