"""Stolen shares: portions from one queue."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.errors import ConfigError
from weft.data.stealing import Queues


def test_whoever_asks_gets_the_next_portion_until_all_are_taken() -> None:
    queues = Queues()
    assert [queues.take(worker, 0, 3) for worker in (1, 1, 0, 0, 1)] == [0, 1, 2, None, None]


def test_every_share_has_a_queue_of_its_own() -> None:
    queues = Queues()
    assert [queues.take(0, 0, 2), queues.take(0, 1, 5), queues.take(1, 0, 2), queues.take(1, 1, 5)] == [0, 0, 1, 1]


def test_a_share_of_nothing_is_over_at_once() -> None:
    assert Queues().take(0, 0, 0) is None


def test_workers_that_share_different_data_are_told() -> None:
    queues = Queues()
    queues.take(0, 1, 4)
    with pytest.raises(ConfigError) as raised:
        queues.take(2, 1, 5)
    assert str(raised.value) == (
        "worker 2 came to share 2 with 5 portions, but others have 4.\n"
        "  Let all workers share the same data, equally often."
    )


@pytest.mark.slow
@given(st.integers(1, 60), st.lists(st.integers(0, 5), min_size=61, max_size=80))
def test_every_portion_is_given_once_whoever_asks_when(num_portions: int, asking: list[int]) -> None:
    queues = Queues()
    given_out = [queues.take(worker, 3, num_portions) for worker in asking]
    assert given_out[:num_portions] == list(range(num_portions))
    assert set(given_out[num_portions:]) <= {None}
