"""One process's part in a check-up of the cluster: it posts its card, connects to the others and measures the links.

The first process of each host measures; the others only post their cards. All pairs of hosts are measured, in rounds:
pairs without a common host at the same time.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from weft.core.errors import TransportError
from weft.engines.diagnose.cluster.connections import BROKEN, HostConnections, connect
from weft.engines.diagnose.cluster.info import (
    Card,
    HostFinding,
    Report,
    card_key,
    gather,
    hosts_of,
    own_card,
    report_key,
    rounds_of,
)
from weft.engines.diagnose.cluster.link_probe import PHASE_S_MAX, TIMEOUT_S, TRIES, measure
from weft.engines.hosts.rendezvous import Rendezvous, post_note, read_notes
from weft.transports.door import listen

COME_S = 20.0
"""How long processes wait for each other's cards."""
CONNECT_S = 5.0


@dataclass(frozen=True)
class Checkup:
    """The result of a check-up: cards of all processes, and the reports of all hosts."""

    num_processes: int
    hosts: list[list[Card]]
    """The cards of each host's processes; those that did not come in time are missing."""
    reports: Mapping[int, Report]
    """Reports by host number; a host that ended too early has none."""
    seconds: float

    @property
    def missing(self) -> list[int]:
        """The ranks of processes that did not come."""
        came = {card.rank for host in self.hosts for card in host}
        return [rank for rank in range(self.num_processes) if rank not in came]

    def seen(self, host: int, other: int) -> HostFinding | None:
        """What `host` found out about `other`; None without a report."""
        report = self.reports.get(host)
        return None if report is None else next((seen for seen in report.seen if seen.other == other), None)


def probe(
    rank: int,
    num_processes: int,
    rendezvous: Rendezvous,
    secret: bytes,
    address: str,
    *,
    script: Path | None = None,
    come_s: float = COME_S,
    connect_s: float = CONNECT_S,
) -> Checkup | None:
    """Take part as process `rank` of `num_processes`, reachable at `address`; rank 0 gets the result, others None."""
    began_s = time.monotonic()
    with listen(address) as listener:
        post_note(rendezvous, card_key(rank), own_card(rank, listener, script))
        hosts = hosts_of(gather(rank, num_processes, rendezvous, come_s))
        firsts = [host[0].rank for host in hosts]
        if rank not in firsts:
            return None
        me = firsts.index(rank)
        mesh = connect(me, [(host[0].address, host[0].port) for host in hosts], listener, secret, connect_s)
    try:
        post_note(rendezvous, report_key(me), Report(_measure_all(me, len(hosts), mesh), mesh.refused))
    finally:
        mesh.close()
    if rank != firsts[0]:
        return None
    wait_s = TIMEOUT_S + TRIES * 6 * PHASE_S_MAX * len(hosts)  # three phases, each with its warming up
    reports = {
        number: report for number in range(len(hosts)) if (report := _report(rendezvous, number, wait_s)) is not None
    }
    return Checkup(num_processes, hosts, reports, time.monotonic() - began_s)


def _measure_all(me: int, num_hosts: int, mesh: HostConnections) -> list[HostFinding]:
    """Measure the links of this host, each in its round."""
    seen = []
    for pairs in rounds_of(num_hosts):
        for answerer, caller in pairs:
            if me in (answerer, caller):
                seen.append(_measure(mesh, caller if me == answerer else answerer, is_caller=me == caller))
    return seen


def _measure(mesh: HostConnections, other: int, *, is_caller: bool) -> HostFinding:
    if other in mesh.failed:
        return HostFinding(other, *mesh.failed[other])
    try:
        found = measure(mesh.links[other], is_caller=is_caller)
    except TransportError as error:
        return HostFinding(other, BROKEN, str(error).splitlines()[0])
    shortest_s, usual_s, skew_s = found.trips or (None, None, None)
    return HostFinding(
        other, "", "", shortest_s, usual_s, skew_s, found.incoming_bytes_per_s, found.meanwhile_bytes_per_s
    )


def _report(rendezvous: Rendezvous, number: int, timeout_s: float) -> Report | None:
    try:
        return read_notes(rendezvous, [report_key(number)], Report, timeout_s)[0]
    except TransportError:
        return None
