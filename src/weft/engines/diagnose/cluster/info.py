"""Records of a check-up: a card, which each process posts about itself, and each host's report on the others.

They are read from a rendezvous, where any process may have written them: nothing is trusted beyond what their types
enforce.
"""

import platform
import socket
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from weft.core.errors import TransportError
from weft.engines.diagnose.machine import usable_cores
from weft.engines.hosts.interfaces import interface_of
from weft.engines.hosts.rendezvous import Rendezvous, post_note, read_notes
from weft.engines.hosts.worker_info import Number, Words, code_digests, home

Positive = Annotated[float, Meta(ge=0)]
Port = Annotated[int, Meta(ge=1, le=65535)]

PACKAGES = ("torch", "numpy", "msgspec")
ROSTER = "checkup/roster"
LOOK_S = 0.05
LATER_S = 10.0
"""How much later than rank 0 a process may come to the check-up."""


class Card(Struct, frozen=True):
    """What one process posts about itself. Processes with equal `home` are on one host."""

    rank: Number
    home: Words
    machine: Words
    """The machine's boot id: hosts that are namespaces of one machine have the same, and share its cores."""
    host: Words
    """The host's name."""
    address: Words
    port: Port
    interface: Words
    cores: Annotated[float, Meta(gt=0)]
    versions: dict[Words, Words]
    same: dict[Words, Words]
    """What must be equal on all hosts: digests of the code."""

    @property
    def words(self) -> str:
        return f"{self.host} ({self.address})"


class HostFinding(Struct, frozen=True):
    """What a host found out about host `other`."""

    other: Number
    trouble: Words = ""
    """The cause of a failure, one of those in `connections.py`; empty if there was none."""
    detail: Words = ""
    round_trip_s: Positive | None = None
    """The shortest round trip. This and the next two fields are measured by the caller only."""
    usual_trip_s: Positive | None = None
    skew_s: float | None = None
    """How far the other host's clock is ahead of this one's."""
    incoming_bytes_per_s: Positive | None = None
    meanwhile_bytes_per_s: Positive | None = None
    """Incoming rate while this host sent, too."""


class Report(Struct, frozen=True):
    """All that a host found out about the others."""

    seen: list[HostFinding]
    refused: dict[Words, Number]
    """Number of refused connections, by reason."""


def own_card(rank: int, listener: socket.socket, script: Path | None) -> Card:
    """The card of this process, which listens on `listener`."""
    address, port = listener.getsockname()[:2]
    return Card(
        rank,
        home(),
        home().partition("/")[0],
        socket.gethostname(),
        address,
        port,
        interface_of(address),
        usable_cores(),
        versions(),
        dict(code_digests(script)),
    )


def versions() -> dict[str, str]:
    """Versions of Python and of packages that should be the same on all hosts."""
    return {"python": platform.python_version(), **{package: _version(package) for package in PACKAGES}}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def card_key(rank: int) -> str:
    return f"checkup/card/{rank}"


def report_key(number: int) -> str:
    return f"checkup/report/{number}"


def gather(rank: int, num_processes: int, rendezvous: Rendezvous, timeout_s: float) -> dict[int, Card]:
    """The cards of all processes that came in time, by rank. Rank 0 posts the list, so that all use the same."""
    if rank:
        wait_s = timeout_s + LOOK_S * num_processes + LATER_S
        (ranks,) = read_notes(rendezvous, [ROSTER], list[Number], wait_s)
        cards = read_notes(rendezvous, [card_key(one) for one in ranks], Card, LATER_S)
        return dict(zip(ranks, cards, strict=True))
    deadline_s = time.monotonic() + timeout_s
    found = {one: _card(rendezvous, one, max(LOOK_S, deadline_s - time.monotonic())) for one in range(num_processes)}
    came = {one: card for one, card in found.items() if card is not None}
    post_note(rendezvous, ROSTER, list(came))
    return came


def _card(rendezvous: Rendezvous, rank: int, timeout_s: float) -> Card | None:
    try:
        (card,) = read_notes(rendezvous, [card_key(rank)], Card, timeout_s)
        ip_address(card.address)
    except (TransportError, ValueError):
        return None
    return card if card.rank == rank else None


def hosts_of(cards: Mapping[int, Card]) -> list[list[Card]]:
    """The cards of each host in order of rank; hosts in order of their lowest ranks."""
    found: dict[str, list[Card]] = {}
    for rank in sorted(cards):
        found.setdefault(cards[rank].home, []).append(cards[rank])
    return list(found.values())


def rounds_of(num_hosts: int) -> list[list[tuple[int, int]]]:
    """Every pair of hosts once, in the fewest rounds in which no host occurs twice (the circle method)."""
    players: Sequence[int | None] = [*range(num_hosts), *([None] if num_hosts % 2 else [])]
    rounds = []
    for _ in range(len(players) - 1 if num_hosts > 1 else 0):
        half = len(players) // 2
        pairs = zip(players[:half], reversed(players[half:]), strict=True)
        rounds.append([(min(a, b), max(a, b)) for a, b in pairs if a is not None and b is not None])
        players = [players[0], players[-1], *players[1:-1]]
    return rounds
