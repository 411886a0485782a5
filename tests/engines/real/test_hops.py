"""What leaders of hosts do: the schedules of collectives."""

import pytest

from weft.core.names import Part
from weft.engines.real.hops import hops_between
from weft.runtime.reduce.between_hosts import Hop


def test_two_hosts_swap_whole_buckets_whatever_their_size() -> None:
    for num_bytes in (100, 10**8):
        assert hops_between(1, 2, num_bytes) == [Hop(0, None, is_sent=True), Hop(0, None, is_sent=False)]


def test_four_hosts_swap_small_buckets_whole_and_large_ones_in_parts() -> None:
    small, large = (hops_between(0, 4, num_bytes) for num_bytes in (1000, 10**8))
    assert {hop.part for hop in small} == {None}
    assert len(small) == 4
    assert {hop.part.of for hop in large if hop.part is not None} == {2, 4}
    assert large[-1] == Hop(2, Part(1, 2), is_sent=False, replaces=True)


@pytest.mark.parametrize("num_hosts", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("num_bytes", [100, 10**8])
def test_what_one_sends_another_awaits_in_the_same_order(num_hosts: int, num_bytes: int) -> None:
    plans = [hops_between(place, num_hosts, num_bytes) for place in range(num_hosts)]
    for a in range(num_hosts):
        for b in range(num_hosts):
            sent = [hop.part for hop in plans[a] if hop.is_sent and hop.other == b]
            assert sent == [hop.part for hop in plans[b] if not hop.is_sent and hop.other == a]
