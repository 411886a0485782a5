"""The agent link: one connection between a host agent and the run's controller, for all workers of that host.

Sends and receives never block: what the socket does not take at once is kept in an outbox, and a packet is decoded when
all of it has arrived.
"""

import selectors
import socket
from collections.abc import Callable
from functools import partial
from select import select
from time import monotonic
from typing import Any

import msgspec
from msgspec import Struct

from weft.core.errors import TransportError
from weft.runtime.channel import MESSAGE_BYTES_MAX, packed
from weft.runtime.messages import Message
from weft.transports.framed_socket import FramedSocket
from weft.transports.tls import Connection
from weft.transports.transport import Rank

CONTROLLER: Rank = 2**32 - 1
"""The controller's rank in handshakes and certificates; a host agent's is the number of its host."""
PACKET_BYTES_MAX = MESSAGE_BYTES_MAX + (1 << 16)
RECEIVED_PER_TURN_MAX = 4 << 20
"""Bytes read from one link before the selector's other sockets are served."""
READ_BYTES = 1 << 18


class WorkerConnected(Struct, frozen=True, tag=True):
    """To the controller: a worker of this host has connected to its agent."""

    rank: int
    pid: int


class WorkerMessage(Struct, frozen=True, tag=True):
    """To the controller: a message that a worker sent on its channel."""

    rank: int
    message: Message


class WorkerOutput(Struct, frozen=True, tag=True):
    """To the controller: a line that a worker wrote to stdout, or to stderr (`is_error`)."""

    rank: int
    text: str
    is_error: bool


class WorkerExited(Struct, frozen=True, tag=True):
    """To the controller: a worker's process has ended or is leaving. This is the last message about that worker."""

    rank: int


class InterruptRequested(Struct, frozen=True, tag=True):
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
    """From worker 0's host, by the controller, to all other hosts: a `piece` of the initial values, at byte `start`."""

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


OfWorker = WorkerConnected | WorkerMessage | WorkerOutput | WorkerExited | InterruptRequested
"""What a host agent says of one of its workers."""
Relayed = OfWorker | AgentHeartbeat | ControllerHeartbeat | Values | Tell | Kill | RunFailed

_decoder: Any = msgspec.msgpack.Decoder(Relayed)


class AgentLink:
    """One end of the connection, registered with the owner's selector; used by one thread only."""

    def __init__(
        self,
        sock: Connection,
        selector: selectors.BaseSelector,
        hear: Callable[[Relayed], None],
        on_end: Callable[[str], None],
    ) -> None:
        """`hear` is called with each message; `on_end` is called once, with the reason, if the connection ends."""
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self._framed = FramedSocket(sock, PACKET_BYTES_MAX)
        self._selector = selector
        self._hear = hear
        self._on_end = on_end
        self.heard_s = monotonic()
        """When bytes last arrived."""
        self.is_closed = False
        self._events = selectors.EVENT_READ
        selector.register(sock, self._events, self.attend)

    @property
    def waiting_bytes(self) -> int:
        """Bytes in the outbox."""
        return self._framed.waiting_bytes

    def send(self, message: Relayed) -> None:
        """Send `message`; does nothing if the link is closed."""
        self.pass_on(packed(message))

    def pass_on(self, packet: bytes) -> None:
        """Send a `packet` that is encoded already; does nothing if the link is closed."""
        if not self.is_closed:
            self._leave(partial(self._framed.queue, packet))

    def linger(self, timeout_s: float) -> None:
        """Block until the outbox is empty, or for `timeout_s`."""
        deadline_s = monotonic() + timeout_s
        while self.waiting_bytes and not self.is_closed and (left_s := deadline_s - monotonic()) > 0:
            select([], [self._sock], [], left_s)
            self._leave(self._framed.flush)

    def attend(self) -> None:
        """Called by the selector: send from the outbox, and receive and hand over messages, without blocking."""
        self._leave(self._framed.flush)
        num_bytes = 0
        while not self.is_closed and num_bytes < RECEIVED_PER_TURN_MAX:
            try:
                came = self._framed.read(bytes_max=READ_BYTES)
            except OSError as error:
                self._close(f"its connection broke ({error.strerror or error})")
                return
            if came is None:
                return
            if not came:
                self._close("its connection ended")
                return
            num_bytes += came
            self.heard_s = monotonic()
            self._take_messages()

    def _take_messages(self) -> None:
        """Hand complete messages to `hear`. Each is taken out first, so that `hear` may call `attend` again."""
        try:
            while not self.is_closed and (raw := self._framed.take()) is not None:
                self._hear(_decoder.decode(raw))
        except (msgspec.DecodeError, UnicodeDecodeError, TransportError) as error:
            self._close(f"it sent an invalid message: {error}")

    def _leave(self, send: Callable[[], None]) -> None:
        """Call `send`, which queues or flushes; while the outbox has bytes, the selector also waits for EVENT_WRITE."""
        try:
            if not self.is_closed:
                send()
        except OSError as error:
            self._close(f"its connection broke ({error.strerror or error})")
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self.waiting_bytes else 0)
        if not self.is_closed and events != self._events:
            self._events = events
            self._selector.modify(self._sock, events, self.attend)

    def _close(self, why: str) -> None:
        if not self.is_closed:
            self.close()
            self._on_end(why)

    def close(self) -> None:
        """Close the connection; `on_end` is not called."""
        if not self.is_closed:
            self.is_closed = True
            self._selector.unregister(self._sock)
            self._framed.close()
