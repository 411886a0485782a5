"""Connections between all hosts of a cluster, made as those of a training are: encrypted, and proved by the secret.

Whoever cannot be reached is an entry with a cause, not an error.
"""

import selectors
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from secrets import token_bytes
from time import monotonic

from weft.core.errors import NodeLost, TransportError
from weft.transports.dialing import dial
from weft.transports.door import Door
from weft.transports.handshake import NONCE_BYTES, Candidate, HandshakeRefused, Steps, answer
from weft.transports.tcp import Address
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
    """The connections of one host, by number; those that were not made, with cause and detail."""

    def __init__(self) -> None:
        self.links: dict[int, socket.socket] = {}
        self.failed: dict[int, tuple[str, str]] = {}
        self.refused: dict[str, int] = {}

    def close(self) -> None:
        for link in self.links.values():
            link.close()


def connect(
    me: int, addresses: Sequence[Address], listener: socket.socket, secret: bytes, timeout_s: float
) -> HostConnections:
    """Call all hosts before this one, and answer those after it, until all are there or the time is over."""
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
    def objection(caller: Rank) -> str | None:
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
    """Let those in who are awaited, until all are there and all own calls have ended, or it is too late."""
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
    """Which of the causes an error of `dial` is."""
    if isinstance(error, NodeLost):
        return CLOSED
    reason = error.__cause__
    if isinstance(reason, TimeoutError) or (reason is not None and isinstance(reason.__cause__, TimeoutError)):
        return SILENT
    if isinstance(reason, HandshakeRefused):
        return STRANGER
    return NO_WAY if isinstance(reason, OSError) else BROKEN
