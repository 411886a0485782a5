"""OpenSSL's part of TLS connections: it works between two buffers in memory, on many records at a time.

It is the OpenSSL that comes with `cryptography`, reached by pyOpenSSL: newer than the system's, which Python's own
module `ssl` uses, and twice as fast (docs/decisions/0050). Imported only where TLS is used, since both are an extra.
"""

from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from OpenSSL import SSL
from OpenSSL._util import ffi, lib
from OpenSSL.crypto import X509, X509StoreFlags

from weft.transports.tls import NotBelieved, TlsError, WrongCertificate

if TYPE_CHECKING:
    from weft.transports.tls import Bytes

INT_MAX = (1 << 31) - 1
"""Bytes that one call of OpenSSL's takes."""
ALERT = 1000
"""OpenSSL's number of the error for an alert of the other end is this and the alert's number (SSL_AD_REASON_OFFSET)."""
BAD_CERTIFICATE, UNKNOWN_CA, DECRYPT_ERROR = 42, 48, 51
"""Alerts (RFC 8446, section 6.2) of an end that has refused the other's certificate."""
NOT_BELIEVED = tuple(ALERT + alert for alert in (BAD_CERTIFICATE, UNKNOWN_CA, DECRYPT_ERROR))


class TlsContext:
    """What all connections of one end have in common: TLS 1.3 only, a certificate and its key, and the authority whose
    certificate the other end must show."""

    def __init__(
        self, certificate: x509.Certificate, key: EllipticCurvePrivateKey, authority: x509.Certificate, *, answers: bool
    ) -> None:
        """For accepted connections if it `answers`, else for those that this process makes."""
        self._context = context = SSL.Context(SSL.TLS_SERVER_METHOD if answers else SSL.TLS_CLIENT_METHOD)
        context.set_min_proto_version(SSL.TLS1_3_VERSION)
        context.set_verify(SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT)
        store = context.get_cert_store()
        assert store is not None
        store.add_cert(X509.from_cryptography(authority))
        store.set_flags(X509StoreFlags.X509_STRICT)
        # Connections are made once: no session is ever resumed. pyOpenSSL cannot leave out tickets, so those that the
        # answering end sends are numbers of sessions that nobody keeps.
        context.set_options(SSL.OP_NO_TICKET)
        context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
        context.clear_mode(lib.SSL_MODE_ENABLE_PARTIAL_WRITE)  # one SSL_write takes many records
        try:
            context.use_certificate(certificate)
            context.use_privatekey(key)
        except SSL.Error as error:
            raise TlsError(error.args[0][0][-1]) from error

    def begin(self, server_hostname: str | None) -> "TlsEngine":
        """One connection; the calling end checks that the other's certificate names `server_hostname`."""
        return TlsEngine(SSL.Connection(self._context), server_hostname)


class TlsEngine:
    """OpenSSL's state of one connection. One thread at a time may use it.

    What is called for each piece of data is called as C (`lib`), since pyOpenSSL's `recv_into` and `bio_read` each
    allocate memory and copy once more. C's memory is that of the caller: `ffi.from_buffer` lends it for the call.
    """

    def __init__(self, connection: SSL.Connection, server_hostname: str | None) -> None:
        self._connection = connection
        self._ssl = connection._ssl
        self._incoming, self._outgoing = connection._into_ssl, connection._from_ssl
        """OpenSSL's buffers in memory (BIO), which grow; they are freed with the connection."""
        self._server_hostname = server_hostname
        self._is_established = False
        if server_hostname is None:
            connection.set_accept_state()
        else:
            connection.set_connect_state()
            self._demand(server_hostname.encode())

    def _demand(self, name: bytes) -> None:
        """Let OpenSSL check the name itself, so that an alert tells the other end; pyOpenSSL has no call for that."""
        demands = lib.SSL_get0_param(self._ssl)
        lib.X509_VERIFY_PARAM_set_hostflags(
            demands, lib.X509_CHECK_FLAG_NO_WILDCARDS | lib.X509_CHECK_FLAG_NEVER_CHECK_SUBJECT
        )
        if lib.X509_VERIFY_PARAM_set1_host(demands, name, len(name)) != 1:
            raise TlsError(f"no host can have the name {name!r}")
        self._connection.set_tlsext_host_name(name)

    def shake_hands(self) -> bool:
        """Go on with the handshake; whether it is over."""
        lib.ERR_clear_error()
        result = lib.SSL_do_handshake(self._ssl)
        if result != 1 and self._has_ended(result):
            raise TlsError("the other end hung up")
        self._is_established = result == 1
        return self._is_established

    def encrypt(self, data: "Bytes") -> None:
        """Encrypt all of `data`; BrokenPipeError if the other end has hung up."""
        with ffi.from_buffer(data) as start:
            lib.ERR_clear_error()
            result = lib.SSL_write(self._ssl, start, len(start)) if len(start) else 1
        if result <= 0:
            raise BrokenPipeError("the other end has hung up") if self._has_ended(result) else BlockingIOError

    def take_encrypted(self, room: bytearray | memoryview) -> int:
        """Move what is encrypted to `room`; how many bytes, 0 if there are none."""
        with ffi.from_buffer(room, require_writable=True) as start:
            return max(0, int(lib.BIO_read(self._outgoing, start, len(start))))

    def add_encrypted(self, data: memoryview) -> None:
        """What came from the other end; empty for the end of the stream."""
        if not data:
            return self._connection.bio_shutdown()
        with ffi.from_buffer(data) as start:
            if lib.BIO_write(self._incoming, start, len(start)) != len(start):
                raise MemoryError
        return None

    def decrypt(self, room: memoryview) -> int | None:
        """As much as `room` takes of what was added; None if nothing of it can be decrypted yet, 0 at the end."""
        num_bytes = 0
        with ffi.from_buffer(room[:INT_MAX], require_writable=True) as start:
            lib.ERR_clear_error()
            room_bytes = len(start)
            while num_bytes < room_bytes:
                result = lib.SSL_read(self._ssl, start + num_bytes, room_bytes - num_bytes)  # one record at most
                if result <= 0:
                    has_ended = self._has_ended(result)
                    return num_bytes if num_bytes or has_ended else None
                num_bytes += result
        return num_bytes

    def pending(self) -> int:
        """Bytes that were added, and are not decrypted or not passed on yet."""
        return int(lib.SSL_pending(self._ssl) + lib.BIO_get_mem_data(self._incoming, ffi.NULL))

    def version(self) -> str | None:
        """The version of the protocol; None before the handshake."""
        return self._connection.get_protocol_version_name() if self._is_established else None

    def certified_names(self) -> list[str]:
        """The DNS names in the other end's certificate, which was verified."""
        certificate = self._connection.get_peer_certificate(as_cryptography=True)
        if certificate is None or not self._is_established:
            return []
        try:
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return []
        return names.get_values_for_type(x509.DNSName)

    def _has_ended(self, result: int) -> bool:
        """Why a call of OpenSSL's did not go on: True at the end of the stream, False if more has to come; TlsError for
        anything else. The errors that OpenSSL keeps for this thread are taken."""
        kind = lib.SSL_get_error(self._ssl, result)
        if kind == lib.SSL_ERROR_WANT_READ:
            return False
        code = lib.ERR_peek_error()  # the first: what follows from it is said behind it
        lib.ERR_clear_error()
        if kind == lib.SSL_ERROR_ZERO_RETURN or not code:
            return True
        number = lib.ERR_GET_REASON(code)
        if number == lib.SSL_R_UNEXPECTED_EOF_WHILE_READING:
            return True
        reason = _text(lib.ERR_reason_error_string(code)) or f"error {number}"
        if number in NOT_BELIEVED:
            raise NotBelieved(reason)
        verified = lib.SSL_get_verify_result(self._ssl)
        if verified != lib.X509_V_OK:
            raise WrongCertificate(self._flaw(verified))
        raise TlsError(reason)

    def _flaw(self, verified: int) -> str:
        if verified == lib.X509_V_ERR_HOSTNAME_MISMATCH:
            return f"Hostname mismatch, certificate is not valid for '{self._server_hostname}'"
        return _text(lib.X509_verify_cert_error_string(verified))


def _text(string: object) -> str:
    """A string of C's; empty for none."""
    return ffi.string(string).decode() if string else ""
