"""Certificates of a job: an authority made in memory, and TLS 1.3 contexts in which both ends must show theirs.

The launcher makes the authority, issues one identity to each process and forgets the authority's key.
Nothing is written to a disk.
"""

import os
import ssl
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from weft.transports.handshake import certified_name
from weft.transports.transport import Rank

VALID_FOR = timedelta(days=365)
CLOCKS_MAY_DIFFER_BY = timedelta(days=1)
AUTHORITY = "weft job"


class Identity(NamedTuple):
    """What one process shows to the others, and whom it believes; PEM. `key` is secret."""

    certificate: bytes
    key: bytes
    authority: bytes


class Contexts(NamedTuple):
    """TLS for both ends of a connection: `answer` for those that come in, `call` for those that go out."""

    answer: ssl.SSLContext
    call: ssl.SSLContext


class Authority:
    """A certificate authority for one job. Its key lives as long as this object, and nowhere else."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._certify(AUTHORITY, self._key.public_key(), is_authority=True)

    def issue(self, rank: Rank) -> Identity:
        """The identity of a process, good as either end of a connection."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._certify(certified_name(rank), key.public_key(), is_authority=False)
        return Identity(
            certificate.public_bytes(Encoding.PEM),
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
            self._certificate.public_bytes(Encoding.PEM),
        )

    def _certify(self, name: str, key: ec.EllipticCurvePublicKey, *, is_authority: bool) -> x509.Certificate:
        """A signed certificate with all that strict checks (Python 3.13's default) ask for."""
        now = datetime.now(timezone.utc)
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        length = 0 if is_authority else None
        described = (
            x509.CertificateBuilder()
            .subject_name(_common_name(name))
            .issuer_name(_common_name(AUTHORITY))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - CLOCKS_MAY_DIFFER_BY)
            .not_valid_after(now + VALID_FOR)
            .add_extension(x509.BasicConstraints(is_authority, length), critical=True)
            .add_extension(_usage(signs_certificates=is_authority), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(identifier, critical=False)
        )
        if not is_authority:
            ends = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
            described = described.add_extension(x509.ExtendedKeyUsage(ends), critical=False)
            described = described.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        return described.sign(self._key, SHA256())


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def contexts(identity: Identity) -> Contexts:
    """TLS 1.3 only, and both ends must show a certificate of the job's authority."""
    answer, call = (_context(protocol, identity) for protocol in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT))
    answer.num_tickets = 0  # connections are made once: nobody will resume one
    return Contexts(answer, call)


def _context(protocol: ssl._SSLMethod, identity: Identity) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=identity.authority.decode())
    # OpenSSL reads keys from files only; this one has no name and is gone when it is closed.
    file = os.memfd_create("weft-identity")
    try:
        os.write(file, identity.certificate + identity.key)
        context.load_cert_chain(f"/proc/self/fd/{file}")
    finally:
        os.close(file)
    return context
