"""The channel between a worker process and its engine: it carries the messages of runtime/messages.py in order."""

import socket
import struct
from collections.abc import Iterator
from threading import Lock
from typing import Any

import msgspec
from msgspec import Struct

from weft.core.errors import TransportError
from weft.runtime.messages import Message

LENGTH = struct.Struct("<I")
CREDENTIALS = struct.Struct("3i")
MESSAGE_BYTES_MAX = 64 << 20

_decoder: Any = msgspec.msgpack.Decoder(Message)


def peer_of(end: socket.socket) -> tuple[int, int]:
    """The process at the other end of a local socket, and its user, as the system says."""
    pid, uid, _ = CREDENTIALS.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))
    return pid, uid


def packed(message: Struct) -> bytes:
    """A message as it travels, here and between hosts."""
    raw = msgspec.msgpack.encode(message)
    return LENGTH.pack(len(raw)) + raw


class Channel:
    """One end of a pair of sockets. Several threads may send; one at a time receives."""

    def __init__(self, end: socket.socket) -> None:
        self._lock = Lock()
        self._end = end
        self._came = bytearray()
        self.is_closed = False

    def fileno(self) -> int:
        return self._end.fileno()

    @property
    def maker(self) -> int:
        """The process that made this pair of sockets: for a worker's end, that is its engine."""
        return peer_of(self._end)[0]

    def send(self, message: Message, *, droppable: bool = False) -> bool:
        """Say something; what is droppable is left out when the other end is slow, which gives False."""
        rest = packed(message)
        try:
            with self._lock:
                if droppable:
                    sent = self._end.send(rest, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
                    rest = rest[sent:]
                self._end.sendall(rest)
        except BlockingIOError:
            return False
        except OSError as error:
            raise TransportError(f"the other end of a channel is gone: {error}.") from error
        return True

    def receive(self, *, wait: bool) -> Iterator[Message]:
        """What has come; with `wait`, at least one message unless the other end is gone."""
        while True:
            yielded = False
            while (message := self._next()) is not None:
                yielded = True
                yield message
            if yielded and wait:
                return
            try:
                raw = self._end.recv(1 << 16, 0 if wait else socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError:
                raw = b""
            if not raw:
                self.is_closed = True
                return
            self._came += raw

    def _next(self) -> Message | None:
        if len(self._came) < LENGTH.size:
            return None
        (length,) = LENGTH.unpack_from(self._came)
        if length > MESSAGE_BYTES_MAX:
            raise TransportError(f"a message of {length} bytes was announced; {MESSAGE_BYTES_MAX} are the most.")
        if len(self._came) < LENGTH.size + length:
            return None
        message: Message = _decoder.decode(self._came[LENGTH.size : LENGTH.size + length])
        del self._came[: LENGTH.size + length]
        return message

    def close(self) -> None:
        self.is_closed = True
        self._end.close()
