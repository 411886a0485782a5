"""The network in virtual time: when a message arrives."""

from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.cost.links import Link
from weft.sim.network import HostLinks, Network, RandomDelays

MS = 1_000_000
SLOW, FAST = Link(1e-3, 1e6), Link(1e-5, 1e9)
"""1 ms and 1 kB in a ms; 10 us and 1 kB in a us."""


def links(hosts: tuple[int, ...] = (0, 1, 2, 3), between: Link = SLOW) -> HostLinks:
    return HostLinks(hosts, [between] * (max(hosts) + 1), FAST)


def arrival_ns(network: Network, source: int, target: int, num_bytes: int, now_ns: int) -> int:
    """When a message has arrived that nothing else overtakes."""
    time_ns, has_arrived = network.send(source, target, num_bytes, now_ns)
    return time_ns if has_arrived else network.come_in(source, target, num_bytes, time_ns)


def test_a_message_that_queues_at_its_sender_does_not_keep_others_from_its_target() -> None:
    network = links()
    network.send(0, 1, 10_000, 0)
    assert network.send(0, 2, 1000, 0) == (12 * MS, False), "it leaves after 10 ms"
    assert network.send(3, 2, 1000, 0) == (2 * MS, False), "the target is asked when it gets there"
    assert network.come_in(3, 2, 1000, 2 * MS) == 2 * MS
    assert network.come_in(0, 2, 1000, 12 * MS) == 12 * MS


def test_messages_that_queued_at_their_senders_queue_at_their_common_target_too() -> None:
    network = links()
    for source in (0, 3):
        network.send(source, 1, 10_000, 0)
        assert network.send(source, 2, 1000, 0) == (12 * MS, False)
    assert [network.come_in(source, 2, 1000, 12 * MS) for source in (0, 3)] == [12 * MS, 13 * MS]


@pytest.mark.parametrize(("num_bytes", "ms"), [(0, 1), (1000, 2), (4000, 5)])
def test_on_idle_links_a_message_takes_its_latency_and_the_time_of_its_bytes_exactly(num_bytes: int, ms: int) -> None:
    assert arrival_ns(links(), 0, 1, num_bytes, 7 * MS) == (7 + ms) * MS


def test_nodes_of_one_host_have_the_link_within() -> None:
    network = links(hosts=(0, 0, 1))
    assert arrival_ns(network, 0, 1, 1000, 0) == 10_000 + 1000
    assert arrival_ns(network, 0, 2, 1000, 0) == 2 * MS, "talking inside leaves the host's link free"


def test_two_senders_on_one_host_take_turns_on_its_link() -> None:
    network = links(hosts=(0, 0, 1, 2))
    assert arrival_ns(network, 0, 2, 3000, 0) == 4 * MS
    assert arrival_ns(network, 1, 3, 3000, 0) == 7 * MS


def test_two_senders_on_their_own_hosts_do_not_meet() -> None:
    network = links()
    assert arrival_ns(network, 0, 2, 3000, 0) == 4 * MS
    assert arrival_ns(network, 1, 3, 3000, 0) == 4 * MS


def test_two_messages_for_one_host_come_in_one_after_the_other() -> None:
    network = links()
    assert arrival_ns(network, 0, 2, 3000, 0) == 4 * MS
    assert arrival_ns(network, 1, 2, 3000, 0) == 7 * MS


def test_a_link_is_full_duplex() -> None:
    network = links()
    assert arrival_ns(network, 0, 1, 3000, 0) == 4 * MS
    assert arrival_ns(network, 1, 0, 3000, 0) == 4 * MS


def test_inside_a_host_each_node_has_its_own_port() -> None:
    network = links(hosts=(0, 0, 0, 0))
    assert arrival_ns(network, 0, 1, 10**6, 0) == 10_000 + MS
    assert arrival_ns(network, 2, 3, 10**6, 0) == 10_000 + MS
    assert arrival_ns(network, 0, 3, 10**6, 0) == 10_000 + 2 * MS


def test_a_link_that_was_busy_is_free_again_later() -> None:
    network = links()
    arrival_ns(network, 0, 1, 3000, 0)
    assert arrival_ns(network, 0, 1, 3000, 10 * MS) == 14 * MS


def test_between_two_hosts_the_longer_latency_and_the_lower_bandwidth_count() -> None:
    network = HostLinks((0, 1, 2), [Link(1e-3, 1e9), Link(1e-5, 1e6), SLOW], FAST)
    assert network.link(0, 1) == network.link(1, 0) == Link(1e-3, 1e6)
    assert arrival_ns(network, 0, 1, 1000, 0) == 2 * MS


def test_a_native_reduction_goes_on_within_hosts_and_then_over_the_worst_link_between_them() -> None:
    network = HostLinks((0, 0, 1, 2), [Link(1e-3, 1e9), Link(1e-5, 1e6), FAST], FAST)
    assert network.levels((0, 1)) == [(2, FAST)]
    assert network.levels((0, 3)) == [(1, FAST), (2, Link(1e-3, 1e9))]
    assert network.levels((0, 1, 2, 3)) == [(2, FAST), (3, Link(1e-3, 1e6))]


SENDS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 10**5), st.integers(0, 10**7)))


@pytest.mark.parametrize("make", [lambda: links(hosts=(0, 0, 1, 2)), lambda: RandomDelays(Random(0))])
@given(sends=SENDS)
def test_what_is_sent_first_arrives_first_on_every_channel_and_never_in_no_time(
    make: Callable[[], Network], sends: list[tuple[int, int, int, int]]
) -> None:
    network, now_ns, arrivals = make(), 0, dict[tuple[int, int], list[int]]()
    for source, target, num_bytes, pause_ns in sends:
        now_ns += pause_ns
        arrivals.setdefault((source, target), []).append(arrival_ns(network, source, target, num_bytes, now_ns))
        assert arrivals[source, target][-1] >= now_ns + 10_000
    assert all(before <= after for times in arrivals.values() for before, after in pairwise(times))


def test_random_delays_spread_over_decades_and_repeat_with_their_seed() -> None:
    def delays(seed: int) -> list[int]:
        network = RandomDelays(Random(seed), least_s=1e-5, most_s=1e-1)
        return [arrival_ns(network, node, node + 1, 8, 0) for node in range(400)]

    drawn = delays(0)
    assert drawn == delays(0) != delays(1)
    decades = [sum(10**n <= delay < 10 ** (n + 1) for delay in drawn) for n in range(4, 8)]
    assert sum(decades) == 400
    assert all(70 < count < 130 for count in decades)


def test_with_random_delays_a_collective_has_a_random_latency_in_the_same_range() -> None:
    network = RandomDelays(Random(0))
    drawn = [network.levels((0, 1))[0][1].latency_s for _ in range(20)]
    assert len(set(drawn)) == 20
    assert all(1e-5 <= latency_s <= 1e-1 for latency_s in drawn)
