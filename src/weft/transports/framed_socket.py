"""Whole messages over a stream socket, each behind its length: for everything that is said between Weft's processes
but the tensors of a training, which have frames of their own (transports/frames.py).

    a packet: the message's length (4 bytes, little-endian), the message

The socket may be a local one, TCP or TLS. Who may not wait uses `queue` and `flush`: what the socket does not take
stays in an outbox, in order. Who may wait uses `send`, on a socket that blocks.
"""

import socket
import struct
from collections import deque
from threading import Lock

from weft.core.errors import TransportError
from weft.transports.tls import Connection, TlsSocket

LENGTH = struct.Struct("<I")
READ_BYTES = 1 << 16
RECORD_BYTES = 16 << 10
"""Sent at a time. TLS makes records of no more; and one that it could not send must be given to it again as it was."""


def framed(message: bytes) -> bytes:
    """A message as a packet."""
    return LENGTH.pack(len(message)) + message


class FramedSocket:
    """One end of a connection. Several threads may send; one at a time receives.

    A broken connection raises the system's OSError, from whatever finds it out first; the caller closes.
    """

    def __init__(self, sock: Connection, message_bytes_max: int) -> None:
        """Of the other end, no message is longer than `message_bytes_max`."""
        self._sock = sock
        self._message_bytes_max = message_bytes_max
        self._came = bytearray()
        self._outbox: deque[memoryview] = deque()
        self._sending = Lock()
        self._waiting_bytes = 0
        """What is in the outbox."""

    @property
    def waiting_bytes(self) -> int:
        """What has not left yet."""
        return self._waiting_bytes + (self._sock.unsent_bytes if isinstance(self._sock, TlsSocket) else 0)

    def fileno(self) -> int:
        return self._sock.fileno()

    def send(self, packet: bytes) -> None:
        """Return when the socket has taken it, and all that waited before it. Only for sockets that block."""
        with self._sending:
            while self._outbox:
                self._sock.sendall(self._outbox[0], socket.MSG_NOSIGNAL)
                self._waiting_bytes -= len(self._outbox.popleft())
            self._sock.sendall(packet, socket.MSG_NOSIGNAL)

    def try_send(self, packet: bytes) -> bool:
        """The same, or False and nothing of it is sent, if the socket takes nothing at this moment."""
        with self._sending:
            if self._outbox:
                return False
            try:
                sent = self._sock.send(packet, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return False
            if sent < len(packet):  # half a message would be none: the rest must follow, whatever it takes
                self._sock.sendall(memoryview(packet)[sent:], socket.MSG_NOSIGNAL)
        return True

    def queue(self, packet: bytes) -> None:
        """Send as much as the socket takes at once; the rest waits for `flush`."""
        with self._sending:
            self._outbox.append(memoryview(packet))
            self._waiting_bytes += len(packet)
        self.flush()

    def flush(self) -> None:
        """Send as much of what waits as the socket takes at once."""
        with self._sending:
            if isinstance(self._sock, TlsSocket):
                self._sock.flush()
            while self._outbox:
                piece = self._outbox[0]
                try:
                    sent = self._sock.send(piece[:RECORD_BYTES], self._without_waiting(socket.MSG_NOSIGNAL))
                except BlockingIOError:
                    return
                self._waiting_bytes -= sent
                if sent == len(piece):
                    self._outbox.popleft()
                else:
                    self._outbox[0] = piece[sent:]

    def read(self, *, wait: bool = False, bytes_max: int = READ_BYTES) -> int | None:
        """Read once: how many bytes came; 0 at the end of the stream, None if there is nothing at this moment.

        With `wait` a socket that blocks waits for the first byte, and raises TimeoutError if it has a timeout.
        """
        try:
            raw = self._sock.recv(bytes_max, 0 if wait else self._without_waiting())
        except BlockingIOError:
            return None
        self._came += raw
        return len(raw)

    def take(self) -> bytearray | None:
        """The next message of what was read; None if there is no whole one. What is too long is refused when its
        length is known, before it is kept."""
        if len(self._came) < LENGTH.size:
            return None
        (length,) = LENGTH.unpack_from(self._came)
        if length > self._message_bytes_max:
            raise TransportError(f"a message of {length} bytes was announced; {self._message_bytes_max} are the most.")
        end = LENGTH.size + length
        if len(self._came) < end:
            return None
        message = self._came[LENGTH.size : end]
        del self._came[:end]
        return message

    def close(self) -> None:
        """Hang up; what waits is not sent any more."""
        self._outbox.clear()
        self._waiting_bytes = 0
        self._sock.close()

    def _without_waiting(self, flags: int = 0) -> int:
        """A socket that never blocks needs no flags, and TLS takes none."""
        return 0 if self._sock.gettimeout() == 0 else flags | socket.MSG_DONTWAIT
