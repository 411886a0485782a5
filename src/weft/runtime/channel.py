"""The channel between a worker process and its engine: a Unix socket pair that carries runtime/messages.py.

All threads of a worker (script, background driver, heartbeat, script watch) may send; only the driving one receives.

| state    | the other end                  | leaves it by                                                       |
|----------|--------------------------------|--------------------------------------------------------------------|
| open     | listens                        | `finish`, or the other end has closed: then it is lost (`is_lost`) |
| finished | may close, which is no failure | the other end has closed                                           |
| closed   | is gone                        |                                                                    |
"""

import socket
import struct
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from weft.core.errors import TransportError
from weft.runtime.messages import Message
from weft.transports.framed_socket import FramedSocket, framed

CREDENTIALS = struct.Struct("3i")
MESSAGE_BYTES_MAX = 64 << 20

_decoder: Any = msgspec.msgpack.Decoder(Message)


def peer_of(end: socket.socket) -> tuple[int, int]:
    """The pid and uid of the process at the other end of a Unix socket, as the kernel recorded them (SO_PEERCRED)."""
    pid, uid, _ = CREDENTIALS.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))
    return pid, uid


def packed(message: Struct) -> bytes:
    """A message as it is sent, on channels and between hosts: its length, then msgpack."""
    return framed(msgspec.msgpack.encode(message))


class Channel:
    """One end of a socket pair. Several threads may send, serialised by a lock; one at a time receives."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._framed = FramedSocket(end, MESSAGE_BYTES_MAX)
        self.is_closed = False
        self.is_finished = False
        """This end has said, or is about to say, its last message."""

    @property
    def is_lost(self) -> bool:
        """Whether the other end has closed before this one had finished."""
        return self.is_closed and not self.is_finished

    def finish(self) -> None:
        """The last message is being said: that the other end closes is no failure from now on."""
        self.is_finished = True

    def fileno(self) -> int:
        return self._end.fileno()

    @property
    def maker(self) -> int:
        """The pid of the process that made the socket pair; for a worker's end, that is its engine."""
        return peer_of(self._end)[0]

    def send(self, message: Message, *, droppable: bool = False) -> bool:
        """Send a message. If it is `droppable` and the other end is slow, drops it and returns False."""
        packet = packed(message)
        try:
            if droppable:
                return self._framed.try_send(packet)
            self._framed.send(packet)
        except OSError as error:
            raise TransportError(f"the other end of a channel is gone: {error}.") from error
        return True

    def post(self, message: Message) -> None:
        """Send a message without waiting: what the other end does not take at once is sent by a later `flush`."""
        self._framed.queue(packed(message))

    @property
    def waiting_bytes(self) -> int:
        """What was posted and has not been sent yet."""
        return self._framed.waiting_bytes

    def flush(self) -> None:
        """Send as much of what was posted as the other end takes at once."""
        self._framed.flush()

    def receive(self, *, wait: bool) -> Iterator[Message]:
        """Messages that have arrived. With `wait`, blocks until there is one, or the other end has closed."""
        while True:
            yielded = False
            while (raw := self._framed.take()) is not None:
                yielded = True
                yield _decoder.decode(raw)
            if yielded and wait:
                return
            try:
                num_bytes = self._framed.read(wait=wait)
            except OSError:
                num_bytes = 0
            if num_bytes is None:
                return
            if not num_bytes:
                self.is_closed = True
                return

    def close(self) -> None:
        self.is_closed = True
        self._framed.close()
