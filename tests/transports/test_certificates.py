"""Certificates of a job: made in memory, good for both ends, worth nothing to another job."""

import os
import ssl
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from weft.core.errors import ConfigError
from weft.transports.certificates import Authority, Contexts, Identity, contexts


def named(end: ssl.SSLObject) -> Any:
    """The names in the certificate of the other end."""
    certificate = end.getpeercert()
    assert certificate is not None
    return certificate["subjectAltName"]


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def talk(answer: ssl.SSLContext, call: ssl.SSLContext, name: str) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Let both ends shake hands in memory until both are done."""
    to_answerer, to_caller = ssl.MemoryBIO(), ssl.MemoryBIO()
    answerer = answer.wrap_bio(to_answerer, to_caller, server_side=True)
    caller = call.wrap_bio(to_caller, to_answerer, server_hostname=name)
    unfinished = [caller, answerer]
    while unfinished:
        for end in list(unfinished):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            unfinished.remove(end)
    return answerer, caller


def strict(made: Contexts) -> Contexts:
    """As Python 3.13 checks by default."""
    for context in made:
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    return made


def test_both_ends_show_certificates_of_the_job_under_tls_1_3(authority: Authority) -> None:
    zero, one = (strict(contexts(authority.issue(rank))) for rank in range(2))
    answerer, caller = talk(zero.answer, one.call, "rank-0.weft")
    assert answerer.version() == caller.version() == "TLSv1.3"
    assert named(answerer) == (("DNS", "rank-1.weft"),)
    assert named(caller) == (("DNS", "rank-0.weft"),)


def test_a_caller_of_another_job_is_refused(authority: Authority) -> None:
    theirs = Authority().issue(1)
    ours = authority.issue(0)
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate verify failed"):
        talk(contexts(ours).answer, contexts(theirs._replace(authority=ours.authority)).call, "rank-0.weft")


def test_an_answerer_of_another_job_is_refused(authority: Authority) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate verify failed"):
        talk(contexts(Authority().issue(0)).answer, contexts(authority.issue(1)).call, "rank-0.weft")


def test_another_rank_than_the_called_one_is_refused(authority: Authority) -> None:
    zero, two = contexts(authority.issue(0)), contexts(authority.issue(2))
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        talk(two.answer, zero.call, "rank-1.weft")


def test_a_caller_without_a_certificate_is_refused(authority: Authority) -> None:
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    identity = authority.issue(0)
    bare.load_verify_locations(cadata=identity.authority.decode())
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        talk(contexts(identity).answer, bare, "rank-0.weft")


def test_older_versions_of_tls_are_refused(authority: Authority) -> None:
    identity = authority.issue(0)
    old = contexts(identity).call
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError, match="UNSUPPORTED_PROTOCOL"):
        talk(contexts(identity).answer, old, "rank-0.weft")


def test_an_identity_cannot_issue_others(authority: Authority) -> None:
    certificate = x509.load_pem_x509_certificate(authority.issue(3).certificate)
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not certificate.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign


def test_nothing_is_left_on_a_disk_or_open(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before = os.listdir("/proc/self/fd")
    made = contexts(authority.issue(0))
    assert len(os.listdir("/proc/self/fd")) == len(before)
    assert list(tmp_path.iterdir()) == []
    assert made.answer.num_tickets == 0


def test_a_key_that_is_not_the_certificates_own_is_refused_and_nothing_stays_open(authority: Authority) -> None:
    one, two = authority.issue(1), authority.issue(2)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(ssl.SSLError, match="KEY_VALUES_MISMATCH"):
        contexts(Identity(one.certificate, two.key, one.authority))
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_whoever_has_the_secret_issues_itself_a_certificate_that_all_others_believe() -> None:
    zero, one = (strict(contexts(Authority.of(b"s" * 32).issue(rank))) for rank in range(2))
    answerer, caller = talk(zero.answer, one.call, "rank-0.weft")
    assert named(answerer) == (("DNS", "rank-1.weft"),)
    assert named(caller) == (("DNS", "rank-0.weft"),)


def test_a_certificate_from_another_secret_is_refused() -> None:
    zero, one = (contexts(Authority.of(bytes([byte] * 32)).issue(rank)) for rank, byte in ((0, 1), (1, 2)))
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate verify failed"):
        talk(zero.answer, one.call, "rank-0.weft")


def test_no_certificate_shows_the_secret_or_the_authoritys_key() -> None:
    secret = b"s" * 32
    authority = Authority.of(secret)
    issued = authority.issue(0)
    key = authority._key.private_numbers().private_value.to_bytes(32, "big")
    shown = b"".join(x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER) for pem in issued[::2])
    assert secret not in shown
    assert key not in shown
    assert key != secret


def test_tls_without_cryptography_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "weft.transports.certificates")
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(ConfigError) as refused:
        import_module("weft.transports.certificates")
    assert str(refused.value) == (
        "TLS between hosts needs cryptography, which is not installed here.\n  On every host: pip install 'weft[tls]'"
    )
