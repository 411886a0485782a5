"""Connects all hosts of a cluster as a training run does: with TLS, and authenticated by the secret.

A host that cannot be reached is an entry with a cause, not an error. Outgoing connections are made by threads of a
pool, which only call `dial`; incoming ones by the calling thread.
"""

import selectors
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from secrets import token_bytes
from time import monotonic

from weft.core.errors import NodeLost, TransportError
from weft.transports.dialing import Address, dial
from weft.transports.door import Door
from weft.transports.handshake import NONCE_BYTES, Candidate, HandshakeRefused, Steps, answer
from weft.transports.tls import Connection
from weft.transports.transport import Rank

SILENT, CLOSED, STRANGER, NO_WAY, BROKEN, NOT_CALLED = (
    "no answer",
    "connection refused",
    "not of this job",
    "no way there",
    "connection broke",
    "did not call",
)
"""Why two hosts are not connected."""
CALLS_AT_ONCE_MAX = 64


class HostConnections:
    """The connections of one host, by the other host's number; `failed` has (cause, detail) of those not made."""

    def __init__(self) -> None:
        self.links: dict[int, Connection] = {}
        self.failed: dict[int, tuple[str, str]] = {}
        self.refused: dict[str, int] = {}

    def close(self) -> None:
        for link in self.links.values():
            link.close()


def connect(
    me: int, addresses: Sequence[Address], listener: socket.socket, secret: bytes, timeout_s: float
) -> HostConnections:
    """Connect to all hosts of lower number, and accept those of higher number, for at most `timeout_s`."""
    from weft.transports.certificates import Authority, contexts

    mesh, tls = HostConnections(), contexts(Authority.of(secret).issue(Rank(me)))
    awaited = set(range(me + 1, len(addresses)))
    with selectors.DefaultSelector() as selector, ThreadPoolExecutor(max(1, min(me, CALLS_AT_ONCE_MAX))) as threads:
        door = Door(listener, partial(_answer, me, secret, awaited), tls.answer, selector, monotonic)
        calls = {
            other: threads.submit(dial, addresses[other], Rank(me), Rank(other), secret, tls.call, timeout_s)
            for other in range(me)
        }
        _serve(door, selector, awaited, mesh, monotonic() + timeout_s, lambda: all(c.done() for c in calls.values()))
        mesh.refused = dict(door.refused)
        for other, call in calls.items():
            error = call.exception()
            if isinstance(error, TransportError | NodeLost):
                mesh.failed[other] = cause(error), str(error).splitlines()[0]
            else:
                mesh.links[other] = call.result()
        door.close()
    for other in awaited - mesh.links.keys():
        mesh.failed[other] = NOT_CALLED, f"nothing came from it within {timeout_s:g} s."
    return mesh


def _answer(me: int, secret: bytes, awaited: set[int], certified: Rank | None) -> Steps:
    def objection(caller: Rank, view: int) -> str | None:
        if caller not in awaited:
            return "wrong rank"
        return "wrong certificate" if certified not in (None, caller) else None

    return answer(Rank(me), objection, secret, token_bytes(NONCE_BYTES))


def _serve(
    door: Door,
    selector: selectors.BaseSelector,
    awaited: set[int],
    mesh: HostConnections,
    deadline_s: float,
    have_called: Callable[[], bool],
) -> None:
    """Accept the `awaited` hosts, until all are connected and all own calls have ended, or until `deadline_s`."""
    while monotonic() < deadline_s and not (awaited <= mesh.links.keys() and have_called()):
        for key, _ in selector.select(0.05):
            if isinstance(key.data, Door):
                door.accept()
                continue
            assert isinstance(key.data, Candidate)
            other = door.advance(key.data)
            if other is not None:
                mesh.links[other] = key.data.sock
        door.dismiss_the_slow()


def cause(error: Exception) -> str:
    """Classifies an error that `dial` raised: SILENT, CLOSED, ..."""
    if isinstance(error, NodeLost):
        return CLOSED
    reason = error.__cause__
    if isinstance(reason, TimeoutError) or (reason is not None and isinstance(reason.__cause__, TimeoutError)):
        return SILENT
    if isinstance(reason, HandshakeRefused):
        return STRANGER
    return NO_WAY if isinstance(reason, OSError) else BROKEN
