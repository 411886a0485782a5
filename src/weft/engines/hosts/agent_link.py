"""The link: one connection between a host's agent and the run's controller, for all workers of that host.

Nobody waits here: what cannot leave at once waits in an outbox, and what has come is decoded when it is whole.
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
from weft.runtime.channel import LENGTH, MESSAGE_BYTES_MAX, packed
from weft.runtime.messages import Message
from weft.transports.transport import Rank

CONTROLLER: Rank = 2**32 - 1
"""The controller's rank in handshakes and certificates; a host agent's is the number of its host."""
PACKET_BYTES_MAX = MESSAGE_BYTES_MAX + (1 << 16)
RECEIVED_PER_TURN_MAX = 4 << 20
"""After so much from one link it is the others' turn."""
RECORD_BYTES = 16 << 10
STALLED_S = 0.5
"""Turns of one end that are further apart say that it was this end that was held up, not the other that is silent."""
_NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class WorkerConnected(Struct, frozen=True, tag=True):
    """To the controller: a worker of this host has connected to its agent."""

    rank: int
    pid: int


class WorkerMessage(Struct, frozen=True, tag=True):
    """To the controller: what a worker says to its engine."""

    rank: int
    message: Message


class WorkerOutput(Struct, frozen=True, tag=True):
    """To the controller: a line that a worker wrote."""

    rank: int
    text: str
    is_error: bool


class WorkerExited(Struct, frozen=True, tag=True):
    """To the controller: a worker's process has ended; all that it said has been passed on."""

    rank: int


class InterruptRequested(Struct, frozen=True, tag=True):
    """To the controller: a worker was asked by a signal to end in order, for the `times`-th time."""

    rank: int
    times: int


class AgentHeartbeat(Struct, frozen=True, tag=True):
    """To the controller: this host is there, and its system says this of its workers that live: 'R', 'S', 'T', ..."""

    states: dict[int, str]


class ControllerHeartbeat(Struct, frozen=True, tag=True):
    """To a host agent: the controller is there; it is lost when so long nothing is heard of it."""

    patience_s: float


class Values(Struct, frozen=True, tag=True):
    """From worker 0's host through the controller to all others: a piece of the values that all workers begin with."""

    start: int
    piece: bytes


class Tell(Struct, frozen=True, tag=True):
    """To a host agent: what the engine says to a worker."""

    rank: int
    message: Message


class Kill(Struct, frozen=True, tag=True):
    """To a host agent: end all workers of this host at once."""


class RunFailed(Struct, frozen=True, tag=True):
    """To a host agent: why the run has failed, for whoever reads what this host prints."""

    text: str


Relayed = (
    WorkerConnected
    | WorkerMessage
    | WorkerOutput
    | WorkerExited
    | InterruptRequested
    | AgentHeartbeat
    | ControllerHeartbeat
    | Values
    | Tell
    | Kill
    | RunFailed
)

_decoder: Any = msgspec.msgpack.Decoder(Relayed)


class AgentLink:
    """One end of the connection, attended by a selector; used by one thread."""

    def __init__(
        self,
        sock: socket.socket,
        selector: selectors.BaseSelector,
        hear: Callable[[Relayed], None],
        on_end: Callable[[str], None],
    ) -> None:
        """`on_end` is told, once, why nothing will come any more."""
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self._selector = selector
        self._hear = hear
        self._on_end = on_end
        self._came = bytearray()
        self._outbox: deque[memoryview] = deque()
        self.waiting_bytes = 0
        """What has not left yet."""
        self.heard_s = monotonic()
        """When anything came last."""
        self.is_closed = False
        selector.register(sock, selectors.EVENT_READ, self.attend)

    def send(self, message: Relayed) -> None:
        """Say something; to an end that is gone nothing is said."""
        self.pass_on(packed(message))

    def pass_on(self, packet: bytes) -> None:
        """The same with what is encoded already."""
        if not self.is_closed:
            self._outbox.append(memoryview(packet))
            self.waiting_bytes += len(packet)
            self._flush()

    def linger(self, timeout_s: float) -> None:
        """Wait until all that was said has left, for so long at most."""
        deadline_s = monotonic() + timeout_s
        while self.waiting_bytes and not self.is_closed and (left_s := deadline_s - monotonic()) > 0:
            select([], [self._sock], [], left_s)
            self._flush()

    def attend(self) -> None:
        """Do what can be done without waiting."""
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
        """Hand over what is whole; it is taken out first, so whoever hears it may attend to this link again."""
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
            self._close(f"it sent what is no message: {error}")

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
