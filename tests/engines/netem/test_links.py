"""The links of a slow network: when packets come out, in which order, and which do not."""

import pytest

from weft.engines.netem.links import CREDIT_S, QUEUE_BYTES_MIN, QUEUE_S, EmulatedLink, Links

RATE = 10e6
DELAY_S = 0.02
NOW_S = 100.0
PACKET = bytes(10_000)
TURN_S = len(PACKET) / RATE


def came(links: Links, until_s: float, step_s: float = 1e-4) -> list[tuple[float, int]]:
    """When packets come out and whom they are for, for somebody who looks often."""
    told = []
    for tick in range(round((until_s - NOW_S) / step_s)):
        at_s = NOW_S + tick * step_s
        told += [(at_s - NOW_S, target) for target, _ in links.due(at_s)]
    return told


def test_a_packet_takes_its_turn_on_both_links_and_the_delay_between() -> None:
    links = Links([EmulatedLink(RATE, DELAY_S, 0.0)] * 2)
    links.send(0, 1, b"small", NOW_S)
    assert list(links.due(NOW_S + DELAY_S - 1e-6)) == []
    assert list(links.due(NOW_S + DELAY_S + 1e-5)) == [(1, b"small")]
    assert (links.num_packets, links.num_bytes, links.next_s) == (1, 5, None)


def test_packets_of_one_worker_come_out_at_the_rate_of_its_link_in_order() -> None:
    links = Links([EmulatedLink(RATE, DELAY_S, 0.0)] * 3)
    for number in range(100):
        links.send(0, 1 + number % 2, PACKET + bytes([number]), NOW_S)
    told = came(links, NOW_S + 1)
    assert [target for _, target in told] == [1, 2] * 50
    assert told[-1][0] == pytest.approx(DELAY_S + 101 * TURN_S - CREDIT_S, abs=5e-4)


def test_packets_of_several_workers_share_the_receivers_link() -> None:
    links = Links([EmulatedLink(RATE, DELAY_S, 0.0)] * 3)
    for _ in range(50):
        links.send(0, 2, PACKET, NOW_S)
        links.send(1, 2, PACKET, NOW_S)
    assert came(links, NOW_S + 1)[-1][0] == pytest.approx(DELAY_S + 101 * TURN_S, abs=2e-3)


def test_a_worker_with_a_long_queue_does_not_hold_others_up() -> None:
    links = Links([EmulatedLink(RATE, DELAY_S, 0.0)] * 3)
    for _ in range(50):
        links.send(0, 2, PACKET, NOW_S)
    links.send(1, 2, b"mine", NOW_S)
    packets = []
    while links.next_s is not None:
        packets += [packet for _, packet in links.due(links.next_s)]
    assert packets.index(b"mine") < 10


def test_a_full_queue_drops_what_comes_and_holds_a_tenth_of_a_second() -> None:
    links = Links([EmulatedLink(RATE, DELAY_S, 0.0)] * 2)
    for _ in range(300):
        links.send(0, 1, PACKET, NOW_S)
    carried = len(came(links, NOW_S + 1))
    assert carried == pytest.approx((QUEUE_S + CREDIT_S) / TURN_S, abs=2)
    assert links.num_dropped == 300 - carried


def test_a_queue_of_a_very_slow_link_still_holds_a_burst() -> None:
    links = Links([EmulatedLink(1e4, DELAY_S, 0.0)] * 2)
    for _ in range(100):
        links.send(0, 1, PACKET, NOW_S)
    assert 100 - links.num_dropped == pytest.approx(QUEUE_BYTES_MIN / len(PACKET), abs=2)


def test_what_is_lost_is_lost_at_random_and_the_same_with_the_same_seed() -> None:
    counts = []
    for seed in (1, 1, 2):
        links = Links([EmulatedLink(1e12, DELAY_S, 0.25)] * 2, seed)
        for number in range(1000):
            links.send(0, 1, number.to_bytes(2, "big"), NOW_S)
        counts.append([packet for _, packet in links.due(NOW_S + 1)])
        assert len(counts[-1]) == 1000 - links.num_lost == pytest.approx(750, abs=60)
    assert counts[0] == counts[1] != counts[2]


def test_a_late_look_costs_no_bandwidth_if_it_is_not_too_late() -> None:
    links = Links([EmulatedLink(RATE, DELAY_S, 0.0)] * 2)
    for _ in range(2):
        links.send(0, 1, PACKET, NOW_S)
    assert len(list(links.due(NOW_S + 1))) == 2
    at_s = [NOW_S + number * CREDIT_S / 2 for number in range(1, 100)]
    for now_s in at_s:
        for _ in range(round(CREDIT_S / 2 / TURN_S)):
            links.send(0, 1, PACKET, now_s)
    assert links._up_free_s[0] == pytest.approx(at_s[-1], abs=CREDIT_S)


def test_a_worker_may_have_another_link_which_slows_only_what_it_sends_or_gets() -> None:
    slow, fast = EmulatedLink(RATE / 10, 4 * DELAY_S, 0.0), EmulatedLink(RATE, DELAY_S, 0.0)
    took_s = {}
    for source, target in ((1, 2), (0, 1), (1, 0)):
        links = Links([slow, fast, fast])
        for _ in range(10):
            links.send(source, target, PACKET, NOW_S)
        took_s[source, target] = came(links, NOW_S + 1)[-1][0]
    assert took_s[1, 2] == pytest.approx(DELAY_S + 10 * TURN_S, abs=CREDIT_S)
    assert took_s[0, 1] == pytest.approx(4 * DELAY_S + 100 * TURN_S, abs=CREDIT_S)
    assert took_s[1, 0] == pytest.approx(4 * DELAY_S + 100 * TURN_S, abs=CREDIT_S)


def test_between_two_workers_the_greater_loss_counts() -> None:
    links = Links(
        [EmulatedLink(1e12, DELAY_S, 0.5), EmulatedLink(1e12, DELAY_S, 0.0), EmulatedLink(1e12, DELAY_S, 0.0)], 1
    )
    for _ in range(100):
        links.send(1, 2, b"safe", NOW_S)
    assert links.num_lost == 0
    for _ in range(100):
        links.send(1, 0, b"unsafe", NOW_S)
    assert 30 < links.num_lost < 70
