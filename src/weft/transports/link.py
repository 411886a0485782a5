"""A link: one authenticated TCP or TLS connection to another process; sends and receives frames without blocking."""

import socket
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from weft.core.errors import NodeLost, TransportError
from weft.transports.frames import DATA_BYTES_MAX, HEADER_BYTES, Header, check_data
from weft.transports.transport import Frame, Rank

Piece = bytes | memoryview

GOODBYE = Header(0xFFFF, 0, 0, 0, -1, (0, 0), 0.0, 0, 0, 0, 0).pack()
"""The last bytes on a link that is closed on purpose. No layout has 0xFFFF kinds, so no frame looks like it."""

SLICE_BYTES = 1 << 20

RECORD_BYTES = 16 << 10
"""Bytes per write on TLS: one record. OpenSSL wants a larger write that was interrupted repeated from its start."""

_NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_HUNG_UP = (ssl.SSLEOFError, ssl.SSLZeroReturnError)


class SocketLink:
    """One connection to process `rank`, after its handshake. `check` turns header bytes into a checked Header."""

    def __init__(
        self, rank: Rank, sock: socket.socket, check: Callable[[Rank, memoryview], Header], body_bytes_max: int
    ) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rank = rank
        self.sock = sock
        self.said_goodbye = False
        self.waiting_bytes = 0
        self._outbox: deque[memoryview] = deque()
        self._is_deaf = False
        self._is_tls = isinstance(sock, ssl.SSLSocket)
        self._check = check
        self._body_bytes_max = body_bytes_max
        self._head = memoryview(bytearray(HEADER_BYTES))
        self._room = memoryview(bytearray(DATA_BYTES_MAX))
        self._rest = self._head
        self._header: Header | None = None

    def send(self, pieces: Sequence[Piece]) -> tuple[int, bool]:
        """Send what the socket takes and keep a copy of the rest; the number of bytes sent, and if some were copied.

        The copy is made slice by slice, because the other end reads meanwhile: often most of a large body still goes
        from its own memory to the socket.
        """
        num_gone, is_copied, rest = 0, False, [memoryview(piece) for piece in pieces if piece]
        while rest:
            taken = 0 if self._outbox else self._push(rest)
            num_gone += taken
            rest = _without(rest, taken)
            if rest and not taken:
                copy = bytes(rest[0][:SLICE_BYTES])
                rest = _without(rest, len(copy))
                self._outbox.append(memoryview(copy))
                self.waiting_bytes += len(copy)
                num_gone += self.flush()
                is_copied = True
        return num_gone, is_copied

    def flush(self) -> int:
        """Send from the outbox what the socket takes; the number of bytes sent."""
        num_gone = 0
        while self._outbox:
            piece = self._outbox[0]
            gone = self._push([piece])
            num_gone += gone
            if gone < len(piece):
                self._outbox[0] = piece[gone:]
                break
            self._outbox.popleft()
        self.waiting_bytes -= num_gone
        return num_gone

    def _push(self, pieces: Sequence[memoryview]) -> int:
        """Pass bytes to the kernel; how many it took. After the other end has closed, they are dropped and count as
        taken: `next_frame` will raise the reason."""
        if not self._is_deaf:
            try:
                return _send_encrypted(self.sock, pieces) if self._is_tls else self.sock.sendmsg(pieces)
            except _NOT_NOW:
                return 0
            except OSError as error:
                if isinstance(error, ssl.SSLError) and not isinstance(error, _HUNG_UP):
                    raise TransportError(f"rank {self.rank} cannot be sent to: {error}.") from error
                self._is_deaf = True
        return sum(map(len, pieces))

    def next_frame(self) -> Frame | None:
        """The next frame, if all of it has arrived; the next call overwrites its memory.

        Raises NodeLost if the connection ended without a goodbye, and TransportError for an invalid frame.
        """
        if self._header is None:
            if not self._fill():
                return None
            if self._head == GOODBYE:
                self.said_goodbye = True
                return None
            header = self._check(self.rank, self._head)
            if header.body_bytes and len(self._room) == DATA_BYTES_MAX:
                self._room = memoryview(bytearray(DATA_BYTES_MAX + self._body_bytes_max))
            # Data ends, and the body begins, at a fixed offset, so that the body's numbers are aligned.
            self._rest = self._room[DATA_BYTES_MAX - header.data_bytes : DATA_BYTES_MAX + header.body_bytes]
            self._header = header
        if not self._fill():
            return None
        header, self._header, self._rest = self._header, None, self._head
        data = self._room[DATA_BYTES_MAX - header.data_bytes : DATA_BYTES_MAX]
        check_data(header, data)
        return Frame(header, data, self._room[DATA_BYTES_MAX : DATA_BYTES_MAX + header.body_bytes], self.rank)

    def _fill(self) -> bool:
        """Read into `_rest` without blocking; whether it is full."""
        while self._rest:
            try:
                num_bytes = self.sock.recv_into(self._rest)
            except _NOT_NOW:
                return False
            except OSError as error:
                raise self._lost(f"its connection broke ({error.strerror})") from error
            if not num_bytes:
                raise self._lost("its connection ended without a goodbye")
            self._rest = self._rest[num_bytes:]
        return True

    def _lost(self, how: str) -> NodeLost:
        is_between = self._header is None and len(self._rest) == HEADER_BYTES
        where = "between frames" if is_between else "in the middle of a frame"
        return NodeLost(f"rank {self.rank} is gone: {how}, {where}.\n  What it printed last may say why.")

    def has_decrypted(self) -> bool:
        """Whether OpenSSL holds decrypted bytes: it decrypts whole records, and a selector sees only the socket."""
        return isinstance(self.sock, ssl.SSLSocket) and self.sock.pending() > 0


def _without(pieces: Sequence[memoryview], num_bytes: int) -> list[memoryview]:
    """`pieces` without their first `num_bytes` bytes."""
    rest = []
    for piece in pieces:
        if num_bytes < len(piece):
            rest.append(piece[num_bytes:])
        num_bytes = max(0, num_bytes - len(piece))
    return rest


def _send_encrypted(sock: socket.socket, pieces: Sequence[memoryview]) -> int:
    num_gone = 0
    with suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
        for piece in pieces:
            while piece:
                num_bytes = sock.send(piece[:RECORD_BYTES])
                num_gone += num_bytes
                piece = piece[num_bytes:]
    return num_gone
