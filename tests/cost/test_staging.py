"""Prices of the two ways of an all-reduce between host and devices."""

import pytest

from weft.cost.links import Link
from weft.cost.staging import DEVICE, HOST, Speeds, cheaper, device_s, host_s, prices_s

LINK = Link(0.001, 1e6)
ON_HOST = Speeds(1e9)
ON_DEVICE = Speeds(1e9, LINK, 1e10)


def team(num_hosts: int, num_devices: int) -> list[Speeds]:
    return [ON_HOST] * num_hosts + [ON_DEVICE] * num_devices


def test_staging_in_host_memory_is_two_whole_copies_and_one_sum() -> None:
    assert host_s(1e6, team(3, 1)) == pytest.approx(2 * (0.001 + 1.0) + 0.001)
    assert host_s(1e6, team(1, 3)) == host_s(1e6, team(3, 1))


def test_moving_to_the_devices_copies_a_part_for_every_host_worker_and_the_result() -> None:
    assert device_s(1e6, team(3, 1)) == pytest.approx(4 * (0.001 + 1.0) + 4 * 1e-4)
    assert device_s(1e6, team(1, 2)) == pytest.approx(2 * (0.001 + 0.5) + 3 * 0.5e-4)


def test_without_host_workers_nothing_is_copied() -> None:
    assert device_s(1e6, team(0, 2)) == pytest.approx(2 * 0.5e-4)
    assert cheaper(1e6, team(0, 2)) == DEVICE


@pytest.mark.parametrize(("num_hosts", "num_devices", "place"), [(3, 1, HOST), (1, 3, DEVICE), (1, 2, DEVICE)])
def test_the_few_move_to_the_many(num_hosts: int, num_devices: int, place: str) -> None:
    assert cheaper(1e6, team(num_hosts, num_devices)) == place


def test_slow_starts_of_copies_speak_for_the_host_and_slow_copies_for_the_devices() -> None:
    """With 2 and 2 the host has 2 L + 2 mG, the devices 3 L + 1.5 mG: they meet where L is half of mG."""
    for latency_s, place in ((0.9, HOST), (0.1, DEVICE)):
        workers = [Speeds(1e12), Speeds(1e12), *[Speeds(1e12, Link(latency_s, 1e6), 1e12)] * 2]
        assert cheaper(1e6, workers) == place


def test_the_slowest_worker_counts() -> None:
    slow = Speeds(1e6, Link(0.001, 1e5), 1e10)
    assert host_s(1e6, [ON_HOST, ON_DEVICE, slow]) == pytest.approx(2 * (0.001 + 10.0) + 1.0)
    assert device_s(1e6, [ON_HOST, ON_DEVICE, slow]) == pytest.approx(2 * (0.001 + 5.0) + 3 * 0.5e-4)


def test_buckets_go_one_after_another() -> None:
    workers = team(1, 1)
    assert prices_s([1e6, 2e6], workers) == {
        HOST: pytest.approx(host_s(1e6, workers) + host_s(2e6, workers)),
        DEVICE: pytest.approx(device_s(1e6, workers) + device_s(2e6, workers)),
    }
