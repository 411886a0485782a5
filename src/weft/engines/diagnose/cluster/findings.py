"""Turns a check-up's measurements into findings, each with a verdict and what to do."""

from collections.abc import Callable, Iterator
from ipaddress import ip_address
from statistics import median

from weft.engines.diagnose.cluster.connections import CLOSED, NO_WAY, NOT_CALLED, SILENT, STRANGER
from weft.engines.diagnose.cluster.info import Card
from weft.engines.diagnose.cluster.run import Checkup
from weft.engines.diagnose.machine import Finding, Verdict
from weft.engines.hosts.interfaces import VARIABLE
from weft.observe.records.quantities import human_rate, human_seconds

SKEW_GOOD_S = 0.1
SKEW_MAX_S = 12 * 3600.0
"""Certificates are valid from a day before they are made: clocks that differ by more than half of that are bad."""
ALIKE = 0.75
"""A link counts as slow if its rate is below this share of the median."""
SHOWN_MAX = 6

FIXES = {
    SILENT: "A firewall drops packets, or it is the wrong network: open TCP between them, or set {variable} on {host}.",
    CLOSED: "A firewall between them refuses, or its process has ended: open TCP between the hosts.",
    STRANGER: "Give both hosts the same secret (WEFT_SECRET_FILE); is somebody else's job at that address?",
    NO_WAY: "Hosts of one job need addresses that reach each other: set {variable} on {host}.",
}
OTHERWISE = "Look at what that host printed last, and run it again."


def findings(checkup: Checkup) -> list[Finding]:
    """All findings, in the order in which they should be read."""
    between = (_reach, _clocks, _links) if len(checkup.hosts) > 1 else ()
    return [check(checkup) for check in (_worker_info, _code, _versions, *between)]


def _worker_info(checkup: Checkup) -> Finding:
    num_hosts, came = len(checkup.hosts), sum(map(len, checkup.hosts))
    found = f"{num_hosts} with {came} of {checkup.num_processes} processes: {_names(checkup)}"
    if checkup.missing:
        ranks = ", ".join(map(str, checkup.missing[:SHOWN_MAX])) + ("..." if len(checkup.missing) > SHOWN_MAX else "")
        return Finding(
            "hosts", "bad", f"{found}; rank {ranks} never came", "Look at what those processes printed last."
        )
    for cards in checkup.hosts:
        if num_hosts > 1 and ip_address(cards[0].address).is_loopback:
            fix = f"Set {VARIABLE} on {cards[0].host} to its interface or address: nobody else reaches this one."
            return Finding("hosts", "bad", f"{found}; {cards[0].words} is known by a loopback address", fix)
    if num_hosts == 1:
        return Finding("hosts", "warn", found, "There is nothing between hosts to measure: start it on several.")
    return Finding("hosts", "ok", found)


def _names(checkup: Checkup) -> str:
    firsts = [host[0] for host in checkup.hosts]
    more = f" and {len(firsts) - SHOWN_MAX} more" if len(firsts) > SHOWN_MAX else ""
    return ", ".join(f"{card.words}" for card in firsts[:SHOWN_MAX]) + more


def pairs(checkup: Checkup) -> list[tuple[int, int]]:
    """All pairs of hosts, as (caller, answerer)."""
    return [(caller, answerer) for caller in range(len(checkup.hosts)) for answerer in range(caller)]


def trouble(checkup: Checkup, caller: int, answerer: int) -> tuple[str, str] | None:
    """Why two hosts do not reach each other, from the report that knows the cause; None if they do."""
    called, answered = checkup.seen(caller, answerer), checkup.seen(answerer, caller)
    for seen in (called, answered):
        if seen is not None and seen.trouble and seen.trouble != NOT_CALLED:
            return seen.trouble, seen.detail
    for host, seen in ((caller, called), (answerer, answered)):
        if seen is None:
            return "no report", f"{checkup.hosts[host][0].host} ended before it told what it found."
        if seen.trouble:
            return seen.trouble, seen.detail
    return None


def _reach(checkup: Checkup) -> Finding:
    every = pairs(checkup)
    broken = {pair: found for pair in every if (found := trouble(checkup, *pair)) is not None}
    if not broken:
        return Finding("reach", "ok", f"all {len(every)} pairs connect, encrypted and with the job's secret")
    (_, answerer), (why, detail) = next(iter(broken.items()))
    names = [
        f"{checkup.hosts[a][0].host} -> {checkup.hosts[b][0].words} port {checkup.hosts[b][0].port}: {found[0]}"
        for (a, b), found in list(broken.items())[:SHOWN_MAX]
    ]
    more = f"; and {len(broken) - SHOWN_MAX} more" if len(broken) > SHOWN_MAX else ""
    fix = FIXES.get(why, OTHERWISE).format(variable=VARIABLE, host=checkup.hosts[answerer][0].host)
    told = f"{len(broken)} of {len(every)} pairs do not connect: {'; '.join(names)}{more}"
    return Finding("reach", "bad", told, f"{fix} ({detail})")


def _code(checkup: Checkup) -> Finding:
    return _alike(checkup, "code", lambda card: card.same, "bad", "Give every host the same code: no run will start.")


def _versions(checkup: Checkup) -> Finding:
    fix = "Install the same versions everywhere: results may differ, and some versions do not train together."
    return _alike(checkup, "versions", lambda card: card.versions, "warn", fix)


def _alike(checkup: Checkup, name: str, of: Callable[[Card], dict[str, str]], otherwise: Verdict, fix: str) -> Finding:
    """Compare `of` of all cards: a finding that all are equal, or in what a host first differs from the first card."""
    cards = [card for host in checkup.hosts for card in host]
    first = of(cards[0])
    for card in cards:
        for key in sorted({*first, *of(card)}):
            mine, theirs = first.get(key, "none"), of(card).get(key, "none")
            if mine != theirs:
                found = f"{key}: {cards[0].host} has {mine}, but {card.host} has {theirs}"
                return Finding(name, otherwise, found, fix)
    return Finding(name, "ok", ", ".join(f"{key} {value}" for key, value in first.items()))


def skews_s(checkup: Checkup) -> Iterator[tuple[int, int, float]]:
    """(caller, answerer, seconds): how far the answerer's clock is ahead of the caller's."""
    for caller, answerer in pairs(checkup):
        seen = checkup.seen(caller, answerer)
        if seen is not None and seen.skew_s is not None:
            yield caller, answerer, seen.skew_s


def _clocks(checkup: Checkup) -> Finding:
    worst = max(skews_s(checkup), key=lambda each: abs(each[2]), default=None)
    if worst is None:
        return Finding("clocks", "warn", "not compared", "Fix what is bad above, and run it again.")
    caller, answerer, skew_s = worst
    found = f"at most {human_seconds(abs(skew_s))} apart"
    if abs(skew_s) <= SKEW_GOOD_S:
        return Finding("clocks", "ok", found)
    ahead, behind = (answerer, caller) if skew_s > 0 else (caller, answerer)
    found += f" ({checkup.hosts[ahead][0].host} is ahead of {checkup.hosts[behind][0].host})"
    if abs(skew_s) > SKEW_MAX_S:
        return Finding("clocks", "bad", found, "Certificates will be refused: set the clocks (chrony, ntp).")
    return Finding("clocks", "warn", found, "Logs of the hosts will not fit together: set the clocks (chrony, ntp).")


def rates(checkup: Checkup, *, both_ways: bool = False) -> dict[tuple[int, int], float]:
    """Bytes per second by (source, target): one direction alone, or both at once (`both_ways`)."""
    found = {}
    for target in range(len(checkup.hosts)):
        for source in range(len(checkup.hosts)):
            seen = checkup.seen(target, source)
            rate = None if seen is None else seen.meanwhile_bytes_per_s if both_ways else seen.incoming_bytes_per_s
            if rate:
                found[source, target] = rate
    return found


def latencies_s(checkup: Checkup, *, usual: bool = False) -> dict[tuple[int, int], float]:
    """One-way latency by (caller, answerer): half of the shortest round trip, or of the `usual` (median) one."""
    found = {}
    for caller, answerer in pairs(checkup):
        seen = checkup.seen(caller, answerer)
        trip_s = None if seen is None else seen.usual_trip_s if usual else seen.round_trip_s
        if trip_s is not None:
            found[caller, answerer] = trip_s / 2
    return found


def _links(checkup: Checkup) -> Finding:
    measured, delays = rates(checkup), latencies_s(checkup)
    if not measured or not delays:
        return Finding("links", "warn", "not measured", "Fix what is bad above, and run it again.")
    usual, slowest = median(measured.values()), min(measured, key=lambda pair: measured[pair])
    found = (
        f"{human_rate(usual)} usually, {human_rate(measured[slowest])} at least; "
        f"{human_seconds(median(delays.values()))} one way usually, {human_seconds(max(delays.values()))} at most"
    )
    if measured[slowest] < ALIKE * usual:
        source, target = (checkup.hosts[number][0].host for number in slowest)
        fix = "Synchronous training is as fast as the slowest link. Is somebody else using it?"
        return Finding("links", "warn", f"{found} (from {source} to {target})", fix)
    return Finding("links", "ok", found)
