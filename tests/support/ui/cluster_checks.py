"""Check-ups as they might turn out."""

from collections.abc import Mapping, Sequence
from typing import Any

from weft.engines.diagnose.cluster.info import Card, HostFinding, Report
from weft.engines.diagnose.cluster.run import Checkup

RATE, TRIP_S = 12.5e6, 0.02


def a_card(rank: int, host: int, **other: Any) -> Card:
    told = {
        "home": f"boot{host}/net/pid",
        "machine": f"boot{host}",
        "host": f"node{host}",
        "address": f"10.0.0.{host + 1}",
        "port": 4000 + host,
        "interface": "eth0",
        "cores": 4.0,
        "versions": {"python": "3.11.7", "torch": "2.13.0"},
        "same": {"weft": "0.1.0, code abc"},
    }
    return Card(rank, **{**told, **other})


def seen_well(other: int, trip_s: float | None = TRIP_S, skew_s: float | None = 0.0, rate: float = RATE) -> HostFinding:
    """Of another host with which nothing is wrong; both ways at once it carries a little less."""
    return HostFinding(other, "", "", trip_s, None if trip_s is None else 1.1 * trip_s, skew_s, rate, 0.95 * rate)


def a_checkup(
    sizes: Sequence[int],
    *,
    seen: Mapping[tuple[int, int], HostFinding | None] | None = None,
    cards: Mapping[int, Mapping[str, object]] | None = None,
    num_missing: int = 0,
) -> Checkup:
    """Hosts of so many processes each, with links alike; `seen` and `cards` say, by hosts, what is different."""
    hosts, rank = [], 0
    for host, size in enumerate(sizes):
        hosts.append([a_card(rank + place, host, **(cards or {}).get(host, {})) for place in range(size)])
        rank += size
    usual = {
        (me, other): seen_well(other) if me > other else seen_well(other, None, None)
        for me in range(len(sizes))
        for other in range(len(sizes))
        if me != other
    }
    found = {**usual, **(seen or {})}
    reports = {
        me: Report([one for (host, _), one in found.items() if host == me and one is not None], {})
        for me in range(len(sizes))
    }
    return Checkup(rank + num_missing, hosts, reports, 8.0)
