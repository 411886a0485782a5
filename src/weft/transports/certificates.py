"""Certificates of a job: a certificate authority in memory, and TLS 1.3 contexts in which both ends show theirs (mTLS).

The authority's key is derived from the job's secret, so each process that has the secret issues a certificate to
itself, and no keys are exchanged. Nothing is written to disk. Imported only where TLS is used, since cryptography and
pyOpenSSL are an extra.
"""

from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from weft.core.errors import ConfigError
from weft.transports.handshake import certified_name
from weft.transports.transport import Rank

try:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    from weft.transports.openssl import TlsContext
except ImportError as error:
    raise ConfigError(
        "TLS between hosts needs cryptography and pyOpenSSL, which are not both installed here.\n"
        "  On every host: pip install 'weft[tls]'"
    ) from error

VALID_FOR = timedelta(days=365)
CLOCKS_MAY_DIFFER_BY = timedelta(days=1)
AUTHORITY = "weft job"
PURPOSE = b"weft: the certificate authority of a job"
"""HKDF's `info`: keys that are derived from the secret for different purposes are independent."""
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""The order of the group of P-256: private keys are from 1 to ORDER - 1."""
DERIVED_BYTES = 48
"""16 bytes more than a key has, so that the remainder modulo ORDER - 1 is almost uniform."""


class Identity(NamedTuple):
    """A process's certificate and private key, and the certificate of the authority it trusts."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    authority: x509.Certificate


class Contexts(NamedTuple):
    """TLS contexts for both ends: `answer` for accepted connections, `call` for those that this process makes."""

    answer: TlsContext
    call: TlsContext


class Authority:
    """The certificate authority of one job. Its private key exists only in this object."""

    def __init__(self, key: ec.EllipticCurvePrivateKey | None = None) -> None:
        self._key = key or ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._certify(AUTHORITY, self._key.public_key(), is_authority=True)

    @staticmethod
    def of(secret: bytes) -> "Authority":
        """The authority whose key is derived from `secret`; the same in every process that has it."""
        raw = HKDF(SHA256(), DERIVED_BYTES, salt=None, info=PURPOSE).derive(secret)
        return Authority(ec.derive_private_key(int.from_bytes(raw, "big") % (ORDER - 1) + 1, ec.SECP256R1()))

    def issue(self, rank: Rank) -> Identity:
        """A new certificate and key for the process of rank `rank`, valid as client and as server."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._certify(certified_name(rank), key.public_key(), is_authority=False)
        return Identity(certificate, key, self._certificate)

    def _certify(self, name: str, key: ec.EllipticCurvePublicKey, *, is_authority: bool) -> x509.Certificate:
        """A signed certificate with the extensions that X509_V_FLAG_X509_STRICT asks for."""
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
    """Contexts for TLS 1.3 only, in which both ends must show a certificate of the job's authority."""
    return Contexts(TlsContext(*identity, answers=True), TlsContext(*identity, answers=False))
