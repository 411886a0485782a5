"""The handshake: both ends of a connection prove that they know the job's secret before any frame is read.

    caller                                              answerer
    magic, version, its rank, the other's,
      the view that it calls for, nonce            ->
                                                   <-   magic, version, nonce
    HMAC(secret, "caller", all of the above)       ->
                                                   <-   HMAC(secret, "answerer", all of the above)

Nonces are fresh, so a replayed conversation proves nothing. The role is part of a proof, so no end's proof can be
reflected to it. The caller proves itself first: a stranger learns nothing, and the answerer's proof tells the caller
that it was let in. The view (0 when a run begins) tells the calls of a process from those of another that had its rank
before, and was lost.
"""

import hmac
from collections.abc import Callable, Generator
from struct import Struct
from typing import Any, NamedTuple

from weft.core.errors import TransportError
from weft.transports.frames import VERSION
from weft.transports.tls import Connection, NotBelieved, TlsError, TlsSocket, WrongCertificate
from weft.transports.transport import Rank

MAGIC = b"WEFTHAND"
SECRET_BYTES = 32
NONCE_BYTES = 32
PROOF_BYTES = 32

HELLO = Struct("<8sBIIQ32s")
CHALLENGE = Struct("<8sB32s")
_PROVED = Struct("<8sBIIQ32s32s")

Steps = Generator[tuple[bytes, int], bytes, Rank]
"""One side of the handshake: yields (bytes to send, number of bytes to receive next); returns the other's rank."""


class HandshakeRefused(TransportError):
    """A connection that is not let in; `reason` is what it is counted under."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


class Conversation(NamedTuple):
    """What both ends must agree on; a proof is an HMAC over it."""

    caller: Rank
    answerer: Rank
    view: int
    caller_nonce: bytes
    answerer_nonce: bytes

    def proof(self, secret: bytes, role: bytes) -> bytes:
        """HMAC-SHA256 of role, version, ranks and nonces: only a holder of `secret` can make it."""
        return hmac.digest(secret, _PROVED.pack(role, VERSION, *self), "sha256")

    def check(self, secret: bytes, role: bytes, proof: bytes) -> None:
        if not hmac.compare_digest(self.proof(secret, role), proof):
            raise HandshakeRefused("wrong proof", "its secret is not this job's, or an old conversation was replayed.")


def call(me: Rank, other: Rank, secret: bytes, nonce: bytes, view: int = 0) -> Steps:
    """The side of the process that made the connection."""
    hello = HELLO.pack(MAGIC, VERSION, me, other, view, nonce)
    magic, version, other_nonce = CHALLENGE.unpack((yield hello, CHALLENGE.size))
    _check_opening(magic, version)
    conversation = Conversation(me, other, view, nonce, other_nonce)
    proof = yield conversation.proof(secret, b"caller"), PROOF_BYTES
    conversation.check(secret, b"answerer", proof)
    return other


def answer(me: Rank, expected: Callable[[Rank, int], str | None], secret: bytes, nonce: bytes) -> Steps:
    """The side of the process that accepted it. `expected` takes the proved rank and the view that it calls for,
    and returns an objection, or None."""
    magic, version, caller, callee, view, caller_nonce = HELLO.unpack((yield b"", HELLO.size))
    _check_opening(magic, version)
    if callee != me:
        raise HandshakeRefused("wrong rank", f"it looks for rank {callee}, but this is rank {me}.")
    conversation = Conversation(caller, me, view, caller_nonce, nonce)
    proof = yield CHALLENGE.pack(MAGIC, VERSION, nonce), PROOF_BYTES
    conversation.check(secret, b"caller", proof)
    objection = expected(caller, view)
    if objection is not None:
        raise HandshakeRefused(objection, f"it is rank {caller}, which is not awaited by rank {me}.")
    yield conversation.proof(secret, b"answerer"), 0
    return Rank(caller)


def _check_opening(magic: bytes, version: int) -> None:
    if magic != MAGIC:
        raise HandshakeRefused("wrong magic", f"it begins with {magic!r}, not {MAGIC!r}: not one of Weft's.")
    if version != VERSION:
        raise HandshakeRefused("wrong version", f"it speaks version {version}, but this is version {VERSION}.")


def certified_name(rank: Rank) -> str:
    """The DNS name in the certificate of a process, which callers check as server_hostname."""
    return f"rank-{rank}.weft"


def _certified_rank(shown: dict[str, Any]) -> Rank:
    """The rank in a verified certificate (subjectAltName)."""
    [(_, name)] = shown["subjectAltName"]
    return Rank(name.removeprefix("rank-").removesuffix(".weft"))


def _refusal(error: TlsError) -> HandshakeRefused:
    """The refusal for a TLS error: one end rejected the other's certificate, or the other end did not use TLS."""
    if isinstance(error, WrongCertificate):
        return HandshakeRefused("wrong certificate", f"its certificate is not of this job: {error.reason}.")
    if isinstance(error, NotBelieved):
        return HandshakeRefused(
            "wrong certificate", "it does not believe a certificate of this job: it is of another one."
        )
    return HandshakeRefused("no TLS", f"the encrypted connection failed: {error}.")


class Candidate:
    """A connection in its handshake. It buffers a hundred bytes at most, so that strangers cost little memory."""

    def __init__(self, sock: Connection, begin: Callable[[Rank | None], Steps], deadline_s: float) -> None:
        """`begin` makes this side's steps from the rank in the other's certificate; None without TLS."""
        self.sock = sock
        self.deadline_s = deadline_s
        self._begin = begin
        self._steps: Steps | None = None
        self._to_say = b""
        self._heard = b""
        self._num_awaited = 0

    def advance(self) -> Rank | None:
        """Go on as far as the other end has sent. Returns its rank when done, None before; raises HandshakeRefused."""
        try:
            if self._steps is None:
                self._steps = self._begin(self._certified())
                self._to_say, self._num_awaited = next(self._steps)
            return self._converse(self._steps)
        except BlockingIOError:
            return None
        except TlsError as error:
            raise _refusal(error) from error
        except OSError as error:
            raise HandshakeRefused("broken off", f"the connection broke: {error}.") from error

    def _certified(self) -> Rank | None:
        if not isinstance(self.sock, TlsSocket):
            return None
        self.sock.do_handshake()
        return _certified_rank(self.sock.getpeercert())

    def _converse(self, steps: Steps) -> Rank:
        while True:
            while self._to_say:
                self._to_say = self._to_say[self.sock.send(self._to_say) :]
            while len(self._heard) < self._num_awaited:
                piece = self.sock.recv(self._num_awaited - len(self._heard))
                if not piece:
                    raise HandshakeRefused("truncated", "the connection ended in the middle of the handshake.")
                self._heard += piece
            heard, self._heard = self._heard, b""
            try:
                self._to_say, self._num_awaited = steps.send(heard)
            except StopIteration as end:
                return Rank(end.value)
