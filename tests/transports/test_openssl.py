"""What OpenSSL does for a connection: it lets in who shows a certificate, by TLS 1.3, and resumes nothing."""

import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from support.network.tls_ends import Stranger, believing, talk

from weft.transports.certificates import Authority, contexts
from weft.transports.openssl import TlsContext
from weft.transports.tls import RECORD_BYTES_MAX, TlsError

PEM = Encoding.PEM


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def test_nothing_is_known_of_the_other_end_before_the_handshake(authority: Authority) -> None:
    end = contexts(authority.issue(0)).call.begin("rank-1.weft")
    assert (end.version(), end.certified_names()) == (None, [])


def test_a_name_that_no_host_can_have_is_refused(authority: Authority) -> None:
    with pytest.raises(TlsError) as refused:
        contexts(authority.issue(0)).call.begin("rank-1.weft\0.org")
    assert refused.value.reason == "no host can have the name b'rank-1.weft\\x00.org'"


def test_a_caller_without_a_certificate_is_refused(authority: Authority) -> None:
    identity = authority.issue(0)
    with pytest.raises(TlsError, match="peer did not return a certificate"):
        Stranger(believing(identity.authority), contexts(identity).answer).shake_hands()


def test_older_versions_of_tls_are_refused(authority: Authority) -> None:
    identity = authority.issue(0)
    old = believing(identity.authority)
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2
    with pytest.raises(TlsError, match="unsupported protocol"):
        Stranger(old, contexts(identity).answer).shake_hands()


def test_who_hangs_up_in_the_handshake_is_told_from_who_is_slow(authority: Authority) -> None:
    end = contexts(authority.issue(0)).answer.begin(None)
    assert not end.shake_hands()
    end.add_encrypted(memoryview(b""))
    with pytest.raises(TlsError) as refused:
        end.shake_hands()
    assert str(refused.value) == "the other end hung up"


def test_no_session_is_resumed(authority: Authority, tmp_path: Path) -> None:
    identity, file = authority.issue(1), tmp_path / "identity.pem"
    key = identity.key.private_bytes(PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(identity.certificate.public_bytes(PEM) + key)
    context, answer = believing(identity.authority), contexts(authority.issue(0)).answer
    context.load_cert_chain(file)
    first = Stranger(context, answer)
    first.shake_hands()
    again = Stranger(context, answer, first.end.session)
    again.shake_hands()
    assert again.answerer.certified_names() == ["rank-1.weft"]
    assert not again.end.session_reused


def test_a_key_that_is_not_the_certificates_own_is_refused(authority: Authority) -> None:
    one, two = authority.issue(1), authority.issue(2)
    with pytest.raises(TlsError, match="key values mismatch"):
        TlsContext(one.certificate, two.key, one.authority, answers=True)


def test_one_call_encrypts_many_records_and_another_decrypts_them(authority: Authority) -> None:
    zero, one = (contexts(authority.issue(rank)) for rank in range(2))
    answerer, caller = talk(zero.answer, one.call, "rank-0.weft")
    said, encrypted = bytes(range(256)) * 1024, memoryview(bytearray(2 << 18))
    caller.encrypt(said)
    num_bytes = caller.take_encrypted(encrypted)
    assert len(said) < num_bytes < len(said) + RECORD_BYTES_MAX
    assert caller.take_encrypted(encrypted) == 0
    answerer.add_encrypted(encrypted[:num_bytes])
    assert answerer.pending() == num_bytes
    room = memoryview(bytearray(len(said) + 1))
    assert answerer.decrypt(room) == len(said)
    assert room[:-1] == said
    assert answerer.pending() == 0
    assert answerer.decrypt(room) is None


def test_a_certificate_may_have_no_name_for_hosts(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    zero, one = (contexts(authority.issue(rank)) for rank in range(2))
    answerer, _ = talk(zero.answer, one.call, "rank-0.weft")
    assert answerer.certified_names() == ["rank-1.weft"]
    nameless = authority.issue(0).authority
    monkeypatch.setattr(answerer._connection, "get_peer_certificate", lambda *, as_cryptography: nameless)
    assert answerer.certified_names() == []
