"""The agent link: one connection between a host agent and the run's controller, for all workers of that host.

Sends and receives never block: what the socket does not take at once is kept in an outbox, and a packet is decoded when
all of it has arrived.
"""

import selectors
import socket
import ssl
from collections import deque
from collections.abc import Callable
from select import select
from time import monotonic
from typing import Any

import msgspec
from msgspec import Struct

from weft.core.errors import TransportError
from weft.runtime.channel import LENGTH, MESSAGE_BYTES_MAX, Message, packed
from weft.transports.transport import Rank

CONTROLLER: Rank = 2**32 - 1
"""The controller's rank in handshakes and certificates; a host agent's is the number of its host."""
PACKET_BYTES_MAX = MESSAGE_BYTES_MAX + (1 << 16)
RECEIVED_PER_TURN_MAX = 4 << 20
"""Bytes that one turn reads from one link at most, so that the other links get theirs."""
RECORD_BYTES = 16 << 10
STALLED_S = 0.5
"""If two turns of one end's loop are further apart, that end was held up itself: the other does not count as silent."""
_NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Came(Struct, frozen=True, tag=True):
    """To the controller: a worker of this host has connected to its agent."""

    rank: int
    pid: int


class Said(Struct, frozen=True, tag=True):
    """To the controller: a message that a worker sent on its channel."""

    rank: int
    message: Message


class Wrote(Struct, frozen=True, tag=True):
    """To the controller: a line that a worker wrote to stdout, or to stderr (`is_error`)."""

    rank: int
    text: str
    is_error: bool


class Gone(Struct, frozen=True, tag=True):
    """To the controller: a worker's process has ended or is leaving. It follows everything that the worker said."""

    rank: int


class Asked(Struct, frozen=True, tag=True):
    """To the controller: a worker has received SIGINT or SIGTERM `times` times by now."""

    rank: int
    times: int


class AgentHeartbeat(Struct, frozen=True, tag=True):
    """To the controller: the host agent is alive, and these are its workers' states in /proc: 'R', 'S', 'T', ..."""

    states: dict[int, str]


class ControllerHeartbeat(Struct, frozen=True, tag=True):
    """To a host agent: the controller is alive. It counts as lost when nothing is heard of it for `patience_s`."""

    patience_s: float


class Values(Struct, frozen=True, tag=True):
    """From worker 0's host, through the controller, to all others: a `piece` of the initial values, at byte `start`."""

    start: int
    piece: bytes


class Tell(Struct, frozen=True, tag=True):
    """To a host agent: a message for the channel of worker `rank`."""

    rank: int
    message: Message


class Kill(Struct, frozen=True, tag=True):
    """To a host agent: end all workers of this host at once."""


class RunFailed(Struct, frozen=True, tag=True):
    """To a host agent: why the run has failed, to be printed on that host."""

    text: str


Relayed = Came | Said | Wrote | Gone | Asked | AgentHeartbeat | ControllerHeartbeat | Values | Tell | Kill | RunFailed

_decoder: Any = msgspec.msgpack.Decoder(Relayed)


class AgentLink:
    """One end of the connection, registered with the owner's selector; used by one thread only."""

    def __init__(
        self,
        sock: socket.socket,
        selector: selectors.BaseSelector,
        hear: Callable[[Relayed], None],
        on_end: Callable[[str], None],
    ) -> None:
        """`hear` is called with each message; `on_end` is called once, with the reason, if the connection ends."""
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self._selector = selector
        self._hear = hear
        self._on_end = on_end
        self._came = bytearray()
        self._outbox: deque[memoryview] = deque()
        self.waiting_bytes = 0
        """Bytes in the outbox."""
        self.heard_s = monotonic()
        """When bytes last arrived."""
        self.is_closed = False
        selector.register(sock, selectors.EVENT_READ, self.attend)

    def send(self, message: Relayed) -> None:
        """Send `message`; does nothing if the link is closed."""
        self.pass_on(packed(message))

    def pass_on(self, packet: bytes) -> None:
        """Send a `packet` that is encoded already; does nothing if the link is closed."""
        if not self.is_closed:
            self._outbox.append(memoryview(packet))
            self.waiting_bytes += len(packet)
            self._flush()

    def linger(self, timeout_s: float) -> None:
        """Block until the outbox is empty, or for `timeout_s`."""
        deadline_s = monotonic() + timeout_s
        while self.waiting_bytes and not self.is_closed and (left_s := deadline_s - monotonic()) > 0:
            select([], [self._sock], [], left_s)
            self._flush()

    def attend(self) -> None:
        """Send and receive what is possible without blocking."""
        self._flush()
        num_bytes = 0
        while not self.is_closed and num_bytes < RECEIVED_PER_TURN_MAX:
            try:
                raw = self._sock.recv(1 << 18)
            except _NOT_NOW:
                return
            except OSError as error:
                raw = b""
                self._close(f"its connection broke ({error.strerror or error})")
            if not raw:
                self._close("its connection ended")
                return
            num_bytes += len(raw)
            self.heard_s = monotonic()
            self._came += raw
            self._take_packets()

    def _take_packets(self) -> None:
        """Pass complete packets to `hear`. They are removed from the buffer first, because `hear` may call `attend`."""
        packets, start = [], 0
        try:
            while len(self._came) - start >= LENGTH.size:
                (length,) = LENGTH.unpack_from(self._came, start)
                if length > PACKET_BYTES_MAX:
                    raise TransportError(f"it announced {length} bytes, but {PACKET_BYTES_MAX} are the most")
                end = start + LENGTH.size + length
                if len(self._came) < end:
                    break
                packets.append(bytes(self._came[start + LENGTH.size : end]))
                start = end
            del self._came[:start]
            for packet in packets:
                if not self.is_closed:
                    self._hear(_decoder.decode(packet))
        except (msgspec.DecodeError, UnicodeDecodeError, TransportError) as error:
            self._close(f"it sent an invalid message: {error}")

    def _flush(self) -> None:
        had_something = bool(self._outbox)
        try:
            while self._outbox and not self.is_closed:
                piece = self._outbox[0]
                gone = self._sock.send(piece[:RECORD_BYTES])
                self.waiting_bytes -= gone
                if gone == len(piece):
                    self._outbox.popleft()
                else:
                    self._outbox[0] = piece[gone:]
        except _NOT_NOW:
            pass
        except OSError as error:
            self._close(f"its connection broke ({error.strerror or error})")
        if had_something and not self.is_closed:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outbox else 0)
            self._selector.modify(self._sock, events, self.attend)

    def _close(self, why: str) -> None:
        if not self.is_closed:
            self.close()
            self._on_end(why)

    def close(self) -> None:
        """Hang up."""
        if not self.is_closed:
            self.is_closed = True
            self._outbox.clear()
            self.waiting_bytes = 0
            self._selector.unregister(self._sock)
            self._sock.close()
