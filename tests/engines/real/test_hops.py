"""What leaders of hosts do: the schedules of collectives, for each piece of a bucket."""

import pytest

from weft.core.names import Part
from weft.cost.links import Link
from weft.engines.real.hops import PIECE_BYTES, plans_between
from weft.runtime.connections import LINKS
from weft.runtime.reduce.exchange import Hop


def test_two_hosts_swap_small_buckets_whole_and_large_ones_in_halves_of_pieces() -> None:
    ((hops, num_before, completed),) = plans_between(1, 2, 100)
    assert hops == (Hop(0, None, is_sent=True), Hop(0, None, is_sent=False))
    assert (num_before, completed) == (2, None)
    first, second = plans_between(1, 2, 2 * PIECE_BYTES)
    assert first.hops == (
        Hop(0, Part(0, 4), is_sent=True, is_lent=True),
        Hop(0, Part(1, 4), is_sent=False),
        Hop(0, Part(1, 4), is_sent=True, is_lent=True),
        Hop(0, Part(0, 4), is_sent=False, replaces=True),
    )
    assert (first.num_before, first.completed) == (2, Part(1, 4))
    assert [hop.part for hop in second.hops] == [Part(2, 4), Part(3, 4), Part(3, 4), Part(2, 4)]


def test_a_ring_carries_large_buckets_where_the_number_of_hosts_is_no_power_of_two() -> None:
    (small,), large = plans_between(0, 3, 1000), plans_between(0, 3, 10 * PIECE_BYTES)
    assert {hop.part for hop in small.hops} == {None}
    assert len(large) == 10
    assert [hop.other for hop in large[0].hops] == [1, 2] * 4
    assert {hop.part.of for hop in large[0].hops if hop.part is not None} == {30}


def test_the_further_the_hosts_are_apart_the_fewer_messages_they_exchange() -> None:
    near, far = (plans_between(0, 4, 10**7, Link(delay_s, 1e9)) for delay_s in (1e-4, 2.0))
    assert [len(near[0].hops), len(far[0].hops)] == [8, 4]


@pytest.mark.parametrize("num_hosts", range(1, 10))
@pytest.mark.parametrize("num_bytes", [100, 10**6, 10**8])
@pytest.mark.parametrize("link", [LINKS["tls"], Link(0.01, 1.25e8), Link(2.0, 1e9)])
def test_what_one_sends_another_awaits_in_the_same_order(num_hosts: int, num_bytes: int, link: Link) -> None:
    plans = [plans_between(place, num_hosts, num_bytes, link) for place in range(num_hosts)]
    hops = [[hop for plan in each for hop in plan.hops] for each in plans]
    for a in range(num_hosts):
        for b in range(num_hosts):
            sent = [hop.part for hop in hops[a] if hop.is_sent and hop.other == b]
            assert sent == [hop.part for hop in hops[b] if not hop.is_sent and hop.other == a]


def test_what_others_are_added_to_later_is_not_lent() -> None:
    (plan,) = plans_between(0, 4, 1000)
    assert [hop.is_lent for hop in plan.hops if hop.is_sent] == [False, False]
    folded = plans_between(0, 5, 1000)[0].hops
    assert folded[-1] == Hop(4, None, is_sent=True, is_lent=True), "the result changes no more"
