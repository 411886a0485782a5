"""A check-up by several processes; here they are threads, each on a host of its own unless it is said otherwise."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.processes.rendezvous import MemoryBoard

from weft.engines.diagnose.cluster import info, link_probe
from weft.engines.diagnose.cluster.connections import NOT_CALLED, STRANGER
from weft.engines.diagnose.cluster.info import HostFinding, Report
from weft.engines.diagnose.cluster.run import Checkup, probe

SECRET, OTHER = bytes(32), bytes([1]) * 32


@pytest.fixture(autouse=True)
def quick_threads_as_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(info, "home", lambda: f"boot/{threading.current_thread().name}")
    for name in ("PINGS_S", "WARM_S", "WINDOW_S"):
        monkeypatch.setattr(link_probe, name, 0.02)


def examined(homes: str, secrets: dict[int, bytes] | None = None, **how: Any) -> list[Checkup | None]:
    """What each process gets; those whose letter is a dot never come."""
    rendezvous = MemoryBoard()
    results: list[Checkup | None] = [None] * len(homes)

    def take_part(rank: int) -> None:
        threading.current_thread().name = homes[rank]
        secret = (secrets or {}).get(rank, SECRET)
        results[rank] = probe(rank, len(homes), rendezvous, secret, "127.0.0.1", **how)

    with ThreadPoolExecutor(len(homes)) as threads:
        for part in [threads.submit(take_part, rank) for rank, home in enumerate(homes) if home != "."]:
            part.result()
    return results


@pytest.mark.slow
def test_all_pairs_of_hosts_are_measured_and_worker_0_gets_everything() -> None:
    checkup, *others = examined("abcd")
    assert others == [None] * 3
    assert checkup is not None
    assert [[card.rank for card in host] for host in checkup.hosts] == [[0], [1], [2], [3]]
    assert checkup.missing == []
    for host in range(4):
        for other in set(range(4)) - {host}:
            seen = checkup.seen(host, other)
            assert seen is not None
            assert (seen.trouble, bool(seen.incoming_bytes_per_s)) == ("", True)
            assert (seen.round_trip_s is None, seen.skew_s is None) == (host < other, host < other)
    assert checkup.seconds > 0


def test_of_a_host_with_several_processes_one_measures() -> None:
    checkup, *others = examined("aabab")
    assert others == [None] * 4
    assert checkup is not None
    assert [[card.rank for card in host] for host in checkup.hosts] == [[0, 1, 3], [2, 4]]
    assert [len(report.seen) for report in checkup.reports.values()] == [1, 1]


@pytest.mark.slow
def test_those_who_never_come_are_missing_and_the_others_go_on() -> None:
    checkup, *_ = examined("ab.d", come_s=0.3)
    assert checkup is not None
    assert checkup.missing == [2]
    assert [host[0].rank for host in checkup.hosts] == [0, 1, 3]
    assert all(not seen.trouble for report in checkup.reports.values() for seen in report.seen)


@pytest.mark.slow
def test_a_host_with_another_secret_is_found_and_the_others_are_measured() -> None:
    checkup, *_ = examined("abc", {1: OTHER}, connect_s=1.0)
    assert checkup is not None
    troubles = {(host, seen.other): seen.trouble for host, report in checkup.reports.items() for seen in report.seen}
    assert troubles == {
        (0, 1): NOT_CALLED,
        (1, 0): STRANGER,
        (1, 2): NOT_CALLED,
        (2, 1): STRANGER,
        (0, 2): "",
        (2, 0): "",
    }


def test_what_was_never_told_is_nothing() -> None:
    checkup = Checkup(2, [], {0: Report([HostFinding(1)], {})}, 0.0)
    assert (checkup.seen(0, 1), checkup.seen(0, 2), checkup.seen(1, 0)) == (HostFinding(1), None, None)
