"""Ends of TLS connections in memory: two of Weft's, or one of Weft's and one of a program that is not."""

import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from weft.transports.openssl import TlsContext, TlsEngine

SAID_BYTES_MAX = 1 << 16


def talk(answer: TlsContext, call: TlsContext, name: str) -> tuple[TlsEngine, TlsEngine]:
    """Let both ends shake hands in memory until both are done."""
    answerer, caller = answer.begin(None), call.begin(name)
    unfinished = [(caller, answerer), (answerer, caller)]
    while unfinished:
        for end, other in list(unfinished):
            if end.shake_hands():
                unfinished.remove((end, other))
            said = memoryview(bytearray(SAID_BYTES_MAX))
            other.add_encrypted(said[: end.take_encrypted(said)])
    return answerer, caller


class Stranger:
    """A caller with the system's OpenSSL and Python's `ssl`: as a program that is not Weft's."""

    def __init__(self, context: ssl.SSLContext, answer: TlsContext, session: ssl.SSLSession | None = None) -> None:
        self._said, self._heard = ssl.MemoryBIO(), ssl.MemoryBIO()
        context.check_hostname = False
        self.end = context.wrap_bio(self._heard, self._said, session=session)
        self.answerer = answer.begin(None)

    def shake_hands(self) -> None:
        """Until both ends are done, and what the answerer says then has been heard."""
        is_over = False
        while not is_over:
            try:
                self.end.do_handshake()
                self.end.read(1)
            except ssl.SSLWantReadError:
                self.answerer.add_encrypted(memoryview(self._said.read()))
            is_over = self.answerer.shake_hands()
            said = memoryview(bytearray(SAID_BYTES_MAX))
            self._heard.write(said[: self.answerer.take_encrypted(said)])
        with pytest.raises(ssl.SSLWantReadError):
            self.end.read(1)


def believing(authority: x509.Certificate) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority.public_bytes(Encoding.PEM).decode())
    return context
