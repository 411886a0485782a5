"""A link: one authenticated TCP or TLS connection to another process; sends and receives frames without blocking."""

import socket
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from itertools import islice

from weft.core.errors import NodeLost, TransportError
from weft.transports.dialing import to_ip
from weft.transports.frames import DATA_BYTES_MAX, HEADER_BYTES, Header, check_data
from weft.transports.tls import Connection, TlsError, TlsSocket
from weft.transports.transport import FindRoom, Frame, Rank

Piece = bytes | memoryview

GOODBYE = Header(0xFFFF, 0, 0, 0, -1, (0, 0), 0.0, 0, 0, 0, 0).pack()
"""The last bytes on a link that is closed on purpose. No layout has 0xFFFF kinds, so no frame looks like it."""

SLICE_BYTES = 1 << 20

LOW_WATER_BYTES = 128 << 10
"""While at least so much of a body is awaited, the kernel wakes nobody for less: packets are small."""

PIECES_MAX = 16
"""Pieces of the outbox that are passed to the kernel at a time."""


class SocketLink:
    """One connection to process `rank`, after its handshake."""

    def __init__(
        self,
        rank: Rank,
        sock: Connection,
        check: Callable[[Rank, memoryview], Header],
        body_bytes_max: int,
        find_room: FindRoom = lambda header: None,
    ) -> None:
        """`check` turns header bytes into a checked Header; `find_room` is asked where the frame's body shall go."""
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(OSError):  # who has hung up already is found out when it is read from
            if to_ip(sock.getpeername()[0]).is_loopback:  # nothing is lost or late there: BBR would pace it in vain
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
        self.rank = rank
        self.sock = sock
        self.said_goodbye = False
        self._waiting_bytes = 0
        self._outbox: deque[tuple[memoryview, Hashable | None]] = deque()
        """What waits, and for what it is lent; None: it was copied, or never changes."""
        self._is_deaf = False
        self._tls = sock if isinstance(sock, TlsSocket) else None
        if self._tls is not None:
            self._tls.read_ahead()
        self._check = check
        self._body_bytes_max = body_bytes_max
        self._find_room = find_room
        self._head = memoryview(bytearray(HEADER_BYTES))
        self._room = memoryview(bytearray(DATA_BYTES_MAX))
        self._low_water = 1
        self._rest = self._head
        """What is to be filled next."""
        self._header: Header | None = None
        self._body = memoryview(b"")
        """Where the body of this frame goes."""
        self._is_apart = False
        """The body goes to memory that `find_room` has found, after the data."""

    @property
    def waiting_bytes(self) -> int:
        """Bytes that have not left, encrypted or not."""
        return self._waiting_bytes + (0 if self._tls is None or self._is_deaf else self._tls.unsent_bytes)

    def send(self, pieces: Sequence[Piece], lent_for: Hashable | None = None) -> tuple[int, bool]:
        """Send what the socket takes and keep the rest, a copy of it unless it is lent; the number of bytes sent, and
        if some were copied.

        The copy is made slice by slice, because the other end reads meanwhile: often most of a large body still goes
        from its own memory to the socket.
        """
        num_gone, is_copied, rest = 0, False, [memoryview(piece) for piece in pieces if piece]
        while rest:
            taken = 0 if self._outbox else self._push(rest)
            num_gone += taken
            rest = _without(rest, taken)
            if not rest or taken:
                continue
            if lent_for is not None:
                self._outbox.extend((piece, None if piece.readonly else lent_for) for piece in rest)
                self._waiting_bytes += sum(map(len, rest))
                break
            copy = bytes(rest[0][:SLICE_BYTES])
            rest = _without(rest, len(copy))
            self._outbox.append((memoryview(copy), None))
            self._waiting_bytes += len(copy)
            num_gone += self.flush()
            is_copied = True
        return num_gone, is_copied

    def take_back(self, lent_for: Hashable) -> int:
        """Copy what waits and is lent for this purpose; returns the number of copies."""
        num_copies = 0
        for index, (piece, purpose) in enumerate(self._outbox):
            if purpose == lent_for:
                self._outbox[index] = memoryview(bytes(piece)), None
                num_copies += 1
        return num_copies

    def flush(self) -> int:
        """Send from the outbox what the socket takes; the number of bytes sent."""
        num_gone = 0
        while self._outbox:
            pieces = [piece for piece, _ in islice(self._outbox, PIECES_MAX)]
            gone = self._push(pieces)
            num_gone += gone
            left = _without(pieces, gone)
            for _ in range(len(pieces) - len(left)):
                self._outbox.popleft()
            if left:
                self._outbox[0] = left[0], self._outbox[0][1]
            if not gone:
                break
        self._waiting_bytes -= num_gone
        if self._tls is not None and not self._outbox:
            self._push(())
        return num_gone

    def _push(self, pieces: Sequence[memoryview]) -> int:
        """Pass bytes to the kernel; how many it took. After the other end has closed, they are dropped and count as
        taken: `next_frame` will raise the reason."""
        if not self._is_deaf:
            try:
                return self.sock.sendmsg(pieces)
            except BlockingIOError:
                return 0
            except TlsError as error:
                raise TransportError(f"rank {self.rank} cannot be sent to: {error}.") from error
            except OSError:
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
            self._begin(self._check(self.rank, self._head))
        if not self._fill():
            return None
        if self._is_apart:
            self._rest, self._is_apart = self._body, False
            if not self._fill():
                return None
        self._await(0)  # behind this frame, little may come
        assert self._header is not None
        header, self._header, self._rest = self._header, None, self._head
        data = self._room[DATA_BYTES_MAX - header.data_bytes : DATA_BYTES_MAX]
        check_data(header, data)
        return Frame(header, data, self._body, self.rank)

    def _begin(self, header: Header) -> None:
        """A header has come: its data and body go to where they belong."""
        found = self._find_room(header) if header.body_bytes else None
        if found is None and header.body_bytes and len(self._room) == DATA_BYTES_MAX:
            self._room = memoryview(bytearray(DATA_BYTES_MAX + self._body_bytes_max))
        # Data ends, and the body begins, at a fixed offset, so that the body's numbers are aligned.
        start, end = DATA_BYTES_MAX - header.data_bytes, DATA_BYTES_MAX + header.body_bytes
        self._header, self._is_apart = header, found is not None
        self._body = self._room[DATA_BYTES_MAX:end] if found is None else found
        self._rest = self._room[start : DATA_BYTES_MAX if self._is_apart else end]

    def _fill(self) -> bool:
        """Read into `_rest` without blocking; whether it is full."""
        while self._rest:
            try:
                num_bytes = self.sock.recv_into(self._rest)
            except BlockingIOError:
                self._await(len(self._rest))
                return False
            except OSError as error:
                raise self._lost(f"its connection broke ({error.strerror})") from error
            if not num_bytes:
                raise self._lost("its connection ended without a goodbye")
            self._rest = self._rest[num_bytes:]
        return True

    def _await(self, num_bytes: int) -> None:
        """Let the socket be readable when it has much of what is awaited: never more than what must come, encrypted."""
        read_already = 0 if self._tls is None else self._tls.pending()
        low_water = LOW_WATER_BYTES if num_bytes - read_already >= LOW_WATER_BYTES else 1
        if low_water != self._low_water:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, low_water)
            self._low_water = low_water

    def _lost(self, how: str) -> NodeLost:
        is_between = self._header is None and len(self._rest) == HEADER_BYTES
        where = "between frames" if is_between else "in the middle of a frame"
        return NodeLost(f"rank {self.rank} is gone: {how}, {where}.\n  What it printed last may say why.")

    def has_read_ahead(self) -> bool:
        """Whether bytes were read from the socket and not received: a selector does not see them."""
        return self._tls is not None and self._tls.pending() > 0


def _without(pieces: Sequence[memoryview], num_bytes: int) -> list[memoryview]:
    """`pieces` without their first `num_bytes` bytes."""
    rest = []
    for piece in pieces:
        if num_bytes < len(piece):
            rest.append(piece[num_bytes:])
        num_bytes = max(0, num_bytes - len(piece))
    return rest
