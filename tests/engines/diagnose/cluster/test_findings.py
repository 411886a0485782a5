"""What check-ups amount to."""

import pytest
from support.ui.cluster_checks import RATE, TRIP_S, a_checkup, seen_well

from weft.engines.diagnose.cluster.connections import BROKEN, CLOSED, NO_WAY, NOT_CALLED, SILENT, STRANGER
from weft.engines.diagnose.cluster.findings import findings, latencies_s, pairs, rates, trouble
from weft.engines.diagnose.cluster.info import HostFinding
from weft.engines.diagnose.cluster.run import Checkup
from weft.engines.diagnose.machine import Finding


def found(checkup: Checkup, name: str) -> Finding:
    return next(finding for finding in findings(checkup) if finding.name == name)


def test_a_cluster_without_fault_is_described() -> None:
    assert findings(a_checkup([2, 1])) == [
        Finding("hosts", "ok", "2 with 3 of 3 processes: node0 (10.0.0.1), node1 (10.0.0.2)"),
        Finding("code", "ok", "weft 0.1.0, code abc"),
        Finding("versions", "ok", "python 3.11.7, torch 2.13.0"),
        Finding("reach", "ok", "all 1 pairs connect, encrypted and with the job's secret"),
        Finding("clocks", "ok", "at most 0 us apart"),
        Finding("links", "ok", "100 Mbit/s usually, 100 Mbit/s at least; 10.0 ms one way usually, 10.0 ms at most"),
    ]


def test_one_host_has_nothing_to_measure() -> None:
    assert [(each.name, each.verdict) for each in findings(a_checkup([4]))] == [
        ("hosts", "warn"),
        ("code", "ok"),
        ("versions", "ok"),
    ]


def test_processes_that_never_came_are_named() -> None:
    told = found(a_checkup([1, 1], num_missing=2), "hosts")
    assert (told.verdict, told.fix) == ("bad", "Look at what those processes printed last.")
    assert told.found == "2 with 2 of 4 processes: node0 (10.0.0.1), node1 (10.0.0.2); rank 2, 3 never came"
    assert found(a_checkup([1, 1], num_missing=9), "hosts").found.endswith("; rank 2, 3, 4, 5, 6, 7... never came")


def test_a_host_known_by_a_loopback_address_is_told_to_choose_another() -> None:
    told = found(a_checkup([1, 1], cards={1: {"address": "127.0.1.1"}}), "hosts")
    assert told.verdict == "bad"
    assert told.found.endswith("; node1 (127.0.1.1) is known by a loopback address")
    assert told.fix == "Set WEFT_INTERFACE on node1 to its interface or address: nobody else reaches this one."


@pytest.mark.parametrize(
    ("why", "fix"),
    [
        (
            SILENT,
            "A firewall drops packets, or it is the wrong network: open TCP between them, "
            "or set WEFT_INTERFACE on node0.",
        ),
        (CLOSED, "A firewall between them refuses, or its process has ended: open TCP between the hosts."),
        (STRANGER, "Give both hosts the same secret (WEFT_SECRET_FILE); is somebody else's job at that address?"),
        (NO_WAY, "Hosts of one job need addresses that reach each other: set WEFT_INTERFACE on node0."),
        (BROKEN, "Look at what that host printed last, and run it again."),
    ],
)
def test_a_pair_that_does_not_connect_is_named_with_what_to_do(why: str, fix: str) -> None:
    failed = {(1, 0): HostFinding(0, why, "what dial said."), (0, 1): HostFinding(1, NOT_CALLED, "nothing came.")}
    told = found(a_checkup([1, 1, 1], seen=failed), "reach")
    assert told == Finding(
        "reach",
        "bad",
        f"1 of 3 pairs do not connect: node1 -> node0 (10.0.0.1) port 4000: {why}",
        f"{fix} (what dial said.)",
    )


def test_of_two_who_disagree_the_one_who_knows_more_is_believed() -> None:
    broke = HostFinding(1, BROKEN, "it broke.")
    assert trouble(a_checkup([1, 1], seen={(0, 1): broke}), 1, 0) == (BROKEN, "it broke.")
    called = {(1, 0): HostFinding(0, SILENT, "no."), (0, 1): HostFinding(1, NOT_CALLED, "nothing.")}
    assert trouble(a_checkup([1, 1], seen=called), 1, 0) == (SILENT, "no.")
    uncalled = {(0, 1): HostFinding(1, NOT_CALLED, "nothing."), (1, 0): None}
    assert trouble(a_checkup([1, 1], seen=uncalled), 1, 0) == (
        "no report",
        "node1 ended before it told what it found.",
    )
    assert trouble(a_checkup([1, 1]), 1, 0) is None


def test_many_pairs_that_do_not_connect_are_counted() -> None:
    failed = {(4, other): HostFinding(other, SILENT, "no.") for other in range(4)}
    failed |= {(3, other): HostFinding(other, SILENT, "no.") for other in range(3)}
    told = found(a_checkup([1] * 5, seen=failed), "reach").found
    assert told.startswith("7 of 10 pairs do not connect: node3 -> node0 (10.0.0.1) port 4000: no answer; ")
    assert told.endswith("; and 1 more")


def test_other_code_is_bad_and_other_versions_are_worth_a_look() -> None:
    told = found(a_checkup([1, 1], cards={1: {"same": {"weft": "0.1.0, code xyz"}}}), "code")
    assert told == Finding(
        "code",
        "bad",
        "weft: node0 has 0.1.0, code abc, but node1 has 0.1.0, code xyz",
        "Give every host the same code: no run will start.",
    )
    told = found(a_checkup([1, 1], cards={1: {"versions": {"python": "3.11.7"}}}), "versions")
    assert (told.verdict, told.found) == ("warn", "torch: node0 has 2.13.0, but node1 has none")


@pytest.mark.parametrize(
    ("skew_s", "verdict", "words"),
    [
        (0.05, "ok", "at most 50.0 ms apart"),
        (0.5, "warn", "at most 500.0 ms apart (node0 is ahead of node1)"),
        (-90_000.0, "bad", "at most 1500 min 0 s apart (node1 is ahead of node0)"),
    ],
)
def test_clocks_that_differ_are_told_of(skew_s: float, verdict: str, words: str) -> None:
    told = found(a_checkup([1, 1], seen={(1, 0): seen_well(0, TRIP_S, skew_s, RATE)}), "clocks")
    assert (told.verdict, told.found) == (verdict, words)


def test_a_link_that_is_slower_than_the_others_is_named() -> None:
    told = found(a_checkup([1, 1, 1], seen={(2, 1): seen_well(1, 0.06, 0.0, RATE / 4)}), "links")
    assert told == Finding(
        "links",
        "warn",
        "100 Mbit/s usually, 25 Mbit/s at least; 10.0 ms one way usually, 30.0 ms at most (from node1 to node2)",
        "Synchronous training is as fast as the slowest link. Is somebody else using it?",
    )


def test_where_nothing_was_measured_it_says_so() -> None:
    silent = {(1, 0): HostFinding(0, SILENT, "no."), (0, 1): HostFinding(1, NOT_CALLED, "nothing.")}
    checkup = a_checkup([1, 1], seen=silent)
    assert (rates(checkup), latencies_s(checkup), pairs(checkup)) == ({}, {}, [(1, 0)])
    assert [found(checkup, name).found for name in ("clocks", "links")] == ["not compared", "not measured"]
