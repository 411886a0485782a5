"""The door: a listening socket that any process may connect to, and that lets in only those that pass the handshake."""

import logging
import selectors
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from weft.core.errors import ConfigError
from weft.transports.dialing import new_socket, to_ip
from weft.transports.handshake import Candidate, HandshakeRefused, Steps
from weft.transports.tls import TlsSocket
from weft.transports.transport import Rank

if TYPE_CHECKING:
    from weft.transports.openssl import TlsContext

BACKLOG = 128
PENDING_MAX = 32
"""Connections in the middle of their handshake at most; the oldest is closed to make room for a new one."""
HANDSHAKE_S_MAX = 3.0
ACCEPTED_PER_TURN_MAX = 8

_log = logging.getLogger(__name__)


def listen(host: str, port: int = 0) -> socket.socket:
    """A listening socket on `host`, which must not stand for all interfaces; port 0 lets the kernel choose."""
    if to_ip(host).is_unspecified:
        raise ConfigError(f"'{host}' would listen on all interfaces.\n  Use the address of one, such as 127.0.0.1.")
    listener = new_socket(host)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigError(f"cannot listen on {host}:{port}: {error}.\n  Use an address of this machine.") from error
    listener.listen(BACKLOG)
    listener.setblocking(False)
    return listener


class Door:
    """Accepts connections and runs their handshakes without blocking. Strangers cost little: at most PENDING_MAX at a
    time, each for HANDSHAKE_S_MAX."""

    def __init__(
        self,
        listener: socket.socket,
        begin: Callable[[Rank | None], Steps],
        tls: "TlsContext | None",
        selector: selectors.BaseSelector,
        clock: Callable[[], float],
    ) -> None:
        self.refused: dict[str, int] = {}
        self._listener = listener
        self._begin = begin
        self._tls = tls
        self._selector = selector
        self._clock = clock
        self._pending: dict[Candidate, str] = {}
        selector.register(listener, selectors.EVENT_READ, self)

    @property
    def is_answering(self) -> bool:
        """Whether a handshake is under way."""
        return bool(self._pending)

    def accept(self) -> None:
        """Accept up to ACCEPTED_PER_TURN_MAX connections; their handshakes go on in `advance`, when they send."""
        for _ in range(ACCEPTED_PER_TURN_MAX):
            try:
                sock, address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:  # ECONNABORTED: it closed already; EMFILE: no descriptor is left
                self.count(HandshakeRefused("not accepted", f"{error}."), "a stranger")
                return
            self._take_in(sock, f"{address[0]}:{address[1]}")

    def _take_in(self, sock: socket.socket, address: str) -> None:
        sock.setblocking(False)
        if len(self._pending) == PENDING_MAX:
            oldest = next(iter(self._pending))
            self._refuse(oldest, HandshakeRefused("too many at once", f"{PENDING_MAX} connections came after it."))
        connection = sock if self._tls is None else TlsSocket(self._tls, sock)
        candidate = Candidate(connection, self._begin, self._clock() + HANDSHAKE_S_MAX)
        self._pending[candidate] = address
        self._selector.register(connection, selectors.EVENT_READ, candidate)

    def advance(self, candidate: Candidate) -> Rank | None:
        """Go on with the handshake of a readable connection. Once it is proved, returns its rank; the caller then owns
        its socket."""
        if candidate not in self._pending:  # refused in the same turn, after the selector returned it
            return None
        try:
            rank = candidate.advance()
        except HandshakeRefused as refusal:
            self._refuse(candidate, refusal)
            return None
        if rank is not None:
            del self._pending[candidate]
            self._selector.unregister(candidate.sock)
        return rank

    def dismiss_the_slow(self) -> None:
        """Close connections whose handshake has taken longer than HANDSHAKE_S_MAX."""
        if self._pending:
            now = self._clock()
            for candidate in [each for each in self._pending if each.deadline_s <= now]:
                self._refuse(candidate, HandshakeRefused("too slow", f"no proof came within {HANDSHAKE_S_MAX:g} s."))

    def _refuse(self, candidate: Candidate, refusal: HandshakeRefused) -> None:
        address = self._pending.pop(candidate)
        self._selector.unregister(candidate.sock)
        candidate.sock.close()
        self.count(refusal, address)

    def count(self, refusal: HandshakeRefused, address: str) -> None:
        """Count a refusal by its reason; log the first of each reason."""
        if refusal.reason not in self.refused:
            _log.warning("refused a connection from %s: %s Others like it are only counted.", address, refusal)
        self.refused[refusal.reason] = self.refused.get(refusal.reason, 0) + 1

    def close(self) -> None:
        for candidate in self._pending:
            self._selector.unregister(candidate.sock)
            candidate.sock.close()
        self._pending.clear()
        self._selector.unregister(self._listener)
        self._listener.close()
