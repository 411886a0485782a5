"""A TLS connection that encrypts and decrypts in memory, many records at a time.

OpenSSL on a socket makes a system call for each record of 16 KiB that it sends, and two for each that it receives. Here
it works between two buffers in memory (transports/openssl.py): what the socket takes are many records in one call, and
so is what it brings, once `read_ahead` is called. Before, nothing is read behind the record that is awaited, so that a
selector sees whatever has not been received.
"""

import errno
import socket
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.transports.openssl import TlsContext  # only where TLS is used: OpenSSL is an extra

Bytes = bytes | bytearray | memoryview

WRITE_BYTES = 256 << 10
"""Encrypted at a time: few enough to stay in the processor's cache until the socket has taken them."""
READ_BYTES = 256 << 10
"""Read ahead at a time."""
RECORD_BYTES_MAX = (16 << 10) + 256
ENCRYPTED_BYTES = WRITE_BYTES + (4 << 10)
"""Room for what is encrypted at a time: each record, and each piece, adds 22 bytes."""
HEAD_BYTES = 5
"""What a record begins with; the last two bytes are the length of the rest."""


class TlsError(OSError):
    """TLS cannot go on; `reason` is OpenSSL's."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.EPROTO, reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class WrongCertificate(TlsError):
    """The other end's certificate was not believed by this one."""


class NotBelieved(TlsError):
    """This end's certificate was not believed by the other."""


class TlsSocket:
    """One end of a TLS connection over `sock`, with the methods of a socket. Several threads may send; one at a time
    receives.

    What is encrypted and the socket does not take waits here: at most what was encrypted at a time.
    """

    def __init__(self, context: "TlsContext", sock: socket.socket, server_hostname: str | None = None) -> None:
        """The calling end checks that the other's certificate names `server_hostname`; the answering end has none."""
        self._sock = sock
        self._tls = context.begin(server_hostname)
        self._working = Lock()
        """Held where OpenSSL works, which never takes long: it does one thing at a time on a connection."""
        self._sending = Lock()
        """Held where something is encrypted and passed on, for as long as the socket blocks."""
        self._encrypted = memoryview(bytearray(RECORD_BYTES_MAX))
        """Where what is encrypted waits for the socket."""
        self._unsent = self._encrypted[:0]
        """The part of it that the socket has not taken."""
        self._room = memoryview(bytearray(RECORD_BYTES_MAX))
        self._reads_ahead = False
        self._head, self._rest_bytes = b"", 0
        """Of the record that is being read: its head as far as it has come, and how much of the rest has not."""
        self.setsockopt, self.getsockopt = sock.setsockopt, sock.getsockopt
        self.setblocking, self.settimeout, self.gettimeout = sock.setblocking, sock.settimeout, sock.gettimeout
        self.fileno, self.getpeername, self.getsockname = sock.fileno, sock.getpeername, sock.getsockname
        self.close, self.shutdown = sock.close, sock.shutdown

    def do_handshake(self) -> None:
        """Go on with the handshake; BlockingIOError if the socket does not block and more has to come, TimeoutError if
        it blocks and the whole handshake takes longer than its timeout."""
        timeout_s = self._sock.gettimeout()
        deadline_s = monotonic() + timeout_s if timeout_s else None
        while not self._is_over_with_handshake():
            if deadline_s is not None:
                self._sock.settimeout(max(1e-3, deadline_s - monotonic()))
            self._feed()
        self._sock.settimeout(timeout_s)

    def _is_over_with_handshake(self) -> bool:
        try:
            with self._working:
                is_over = self._tls.shake_hands()
        except TlsError:
            with suppress(OSError):  # it tells the other end why, which may have hung up
                self.flush()
            raise
        self.flush()
        return is_over

    def getpeercert(self) -> dict[str, Any]:
        """The names in the other end's certificate, which was verified, as `ssl` shows them."""
        return {"subjectAltName": tuple(("DNS", name) for name in self._tls.certified_names())}

    def version(self) -> str | None:
        """The version of the protocol; None before the handshake."""
        return self._tls.version()

    @property
    def unsent_bytes(self) -> int:
        """Encrypted, and not taken by the socket yet."""
        return len(self._unsent)

    def flush(self) -> None:
        """Pass on what is encrypted; the rest waits if the socket does not block."""
        with self._sending:
            self._pass_on()

    def _pass_on(self) -> bool:
        """Whether the socket has taken all that was encrypted."""
        while True:
            if not self._unsent:
                with self._working:
                    self._unsent = self._encrypted[: self._tls.take_encrypted(self._encrypted)]
                if not self._unsent:
                    return True
            try:
                self._unsent = self._unsent[self._sock.send(self._unsent) :]
            except BlockingIOError:
                return False

    def send(self, data: Bytes, flags: int = 0) -> int:
        """`sendmsg` of one piece. No flags are needed: Python ignores SIGPIPE."""
        return self.sendmsg((data,))

    def sendmsg(self, pieces: Sequence[Bytes]) -> int:
        """Encrypt and pass on what comes first in these pieces, and return how many bytes; BlockingIOError if earlier
        ones still wait."""
        num_bytes = 0
        with self._sending:
            if not self._pass_on():
                raise BlockingIOError
            with self._working:
                for piece in pieces:
                    if num_bytes < WRITE_BYTES:
                        part = memoryview(piece)[: WRITE_BYTES - num_bytes]
                        self._tls.encrypt(part)
                        num_bytes += len(part)
            if num_bytes > len(self._encrypted) < ENCRYPTED_BYTES:  # strangers get none, since they are sent little
                self._encrypted = memoryview(bytearray(ENCRYPTED_BYTES))
            self._pass_on()
        return num_bytes

    def sendall(self, data: Bytes, flags: int = 0) -> None:
        """Send all of `data`, on a socket that blocks."""
        rest = memoryview(data)
        while rest:
            rest = rest[self.send(rest) :]

    def recv(self, num_bytes: int, flags: int = 0) -> bytes:
        """What has come, at most `num_bytes`; empty at the end of the stream."""
        room = bytearray(num_bytes)
        return bytes(room[: self.recv_into(room)])

    def recv_into(self, room: bytearray | memoryview) -> int:
        """Decrypt into `room` what has come; its number of bytes, 0 at the end of the stream.

        BlockingIOError if there is nothing and the socket does not block.
        """
        rest = memoryview(room)
        while True:
            with self._working:
                num_bytes = self._tls.decrypt(rest)
            if num_bytes is not None:
                return num_bytes
            self._feed()

    def read_ahead(self) -> None:
        """From now on, read whatever there is. Whoever receives has to do so while anything is `pending`."""
        self._reads_ahead, self._room = True, memoryview(bytearray(READ_BYTES))

    def _feed(self) -> None:
        """Read from the socket what OpenSSL is to decrypt."""
        awaited = len(self._room) if self._reads_ahead else self._rest_bytes or HEAD_BYTES - len(self._head)
        num_bytes = self._sock.recv_into(self._room[:awaited])
        if self._rest_bytes:
            self._rest_bytes -= num_bytes
        elif not self._reads_ahead:
            self._head += self._room[:num_bytes]
            if len(self._head) == HEAD_BYTES:
                self._head, self._rest_bytes = b"", int.from_bytes(self._head[-2:], "big")
        with self._working:
            self._tls.add_encrypted(self._room[:num_bytes])

    def pending(self) -> int:
        """Bytes that were read from the socket, and not received yet: a selector does not see them."""
        with self._working:
            return self._tls.pending()


Connection = socket.socket | TlsSocket
"""What frames and messages travel on."""
