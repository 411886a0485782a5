"""Certificates of a job: made in memory, good for both ends, worth nothing to another job."""

import os
import sys
from importlib import import_module
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from support.network.tls_ends import talk

from weft.core.errors import ConfigError
from weft.transports.certificates import Authority, contexts
from weft.transports.tls import WrongCertificate

UNKNOWN = "unable to get local issuer certificate|certificate signature failure|self-signed certificate"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def test_both_ends_show_certificates_of_the_job_under_tls_1_3(authority: Authority) -> None:
    zero, one = (contexts(authority.issue(rank)) for rank in range(2))
    answerer, caller = talk(zero.answer, one.call, "rank-0.weft")
    assert answerer.version() == caller.version() == "TLSv1.3"
    assert answerer.certified_names() == ["rank-1.weft"]
    assert caller.certified_names() == ["rank-0.weft"]


def test_a_caller_of_another_job_is_refused(authority: Authority) -> None:
    theirs = Authority().issue(1)
    ours = authority.issue(0)
    with pytest.raises(WrongCertificate, match=UNKNOWN):
        talk(contexts(ours).answer, contexts(theirs._replace(authority=ours.authority)).call, "rank-0.weft")


def test_an_answerer_of_another_job_is_refused(authority: Authority) -> None:
    with pytest.raises(WrongCertificate, match=UNKNOWN):
        talk(contexts(Authority().issue(0)).answer, contexts(authority.issue(1)).call, "rank-0.weft")


def test_another_rank_than_the_called_one_is_refused(authority: Authority) -> None:
    zero, two = contexts(authority.issue(0)), contexts(authority.issue(2))
    with pytest.raises(WrongCertificate) as refused:
        talk(two.answer, zero.call, "rank-1.weft")
    assert str(refused.value) == "Hostname mismatch, certificate is not valid for 'rank-1.weft'"


def test_an_identity_cannot_issue_others(authority: Authority) -> None:
    certificate = authority.issue(3).certificate
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not certificate.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign


def test_nothing_is_left_on_a_disk_or_open(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before = os.listdir("/proc/self/fd")
    contexts(authority.issue(0))
    assert len(os.listdir("/proc/self/fd")) == len(before)
    assert list(tmp_path.iterdir()) == []


def test_whoever_has_the_secret_issues_itself_a_certificate_that_all_others_believe() -> None:
    zero, one = (contexts(Authority.of(b"s" * 32).issue(rank)) for rank in range(2))
    answerer, caller = talk(zero.answer, one.call, "rank-0.weft")
    assert answerer.certified_names() == ["rank-1.weft"]
    assert caller.certified_names() == ["rank-0.weft"]


def test_a_certificate_from_another_secret_is_refused() -> None:
    zero, one = (contexts(Authority.of(bytes([byte] * 32)).issue(rank)) for rank, byte in ((0, 1), (1, 2)))
    with pytest.raises(WrongCertificate, match=UNKNOWN):
        talk(zero.answer, one.call, "rank-0.weft")


def test_no_certificate_shows_the_secret_or_the_authoritys_key() -> None:
    secret = b"s" * 32
    authority = Authority.of(secret)
    issued = authority.issue(0)
    key = authority._key.private_numbers().private_value.to_bytes(32, "big")
    shown = b"".join(each.public_bytes(Encoding.DER) for each in (issued.certificate, issued.authority))
    assert secret not in shown
    assert key not in shown
    assert key != secret


@pytest.mark.parametrize("module", ["cryptography", "OpenSSL"])
def test_tls_without_its_packages_is_told_how_to_get_them(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    for name in ("certificates", "openssl"):
        monkeypatch.delitem(sys.modules, f"weft.transports.{name}")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError) as refused:
        import_module("weft.transports.certificates")
    assert str(refused.value) == (
        "TLS between hosts needs cryptography and pyOpenSSL, which are not both installed here.\n"
        "  On every host: pip install 'weft[tls]'"
    )
