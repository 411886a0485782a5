"""The handshake: who knows the secret is let in, everybody else is refused by name."""

import hmac
import socket
from contextlib import closing
from struct import pack

import pytest

from weft.transports.handshake import (
    CHALLENGE,
    HELLO,
    MAGIC,
    Candidate,
    HandshakeRefused,
    Steps,
    answer,
    call,
)

SECRET, OTHER_SECRET = b"s" * 32, b"o" * 32
NONCE_A, NONCE_B, NONCE_C = b"a" * 32, b"b" * 32, b"c" * 32
WRONG_PROOF = "wrong proof: its secret is not this job's, or an old conversation was replayed."


def nothing_against(rank: int, view: int) -> None:
    return None


def converse(caller: Steps, answerer: Steps) -> tuple[int, int, list[bytes]]:
    """Whom each end takes the other for, and all that was said."""
    said = []
    hello, _ = next(caller)
    _, awaited = next(answerer)
    assert len(hello) == awaited == HELLO.size
    challenge, awaited = answerer.send(hello)
    assert awaited == 32
    proof, _ = caller.send(challenge)
    last, awaited = answerer.send(proof)
    assert awaited == 0
    said += [hello, challenge, proof, last]
    with pytest.raises(StopIteration) as called:
        caller.send(last)
    with pytest.raises(StopIteration) as answered:
        answerer.send(b"")
    return called.value.value, answered.value.value, said


def test_two_who_know_the_secret_learn_each_others_rank() -> None:
    called, answered, _ = converse(call(3, 1, SECRET, NONCE_A), answer(1, nothing_against, SECRET, NONCE_B))
    assert (called, answered) == (1, 3)


def test_a_proof_covers_role_version_ranks_view_and_both_nonces() -> None:
    _, _, (hello, challenge, proof, last) = converse(
        call(3, 1, SECRET, NONCE_A, view=7), answer(1, nothing_against, SECRET, NONCE_B)
    )
    assert hello == b"WEFTHAND" + pack("<BIIQ", 2, 3, 1, 7) + NONCE_A
    assert challenge == b"WEFTHAND\x02" + NONCE_B
    covered = pack("<BIIQ", 2, 3, 1, 7) + NONCE_A + NONCE_B
    assert proof == hmac.digest(SECRET, b"caller\0\0" + covered, "sha256")
    assert last == hmac.digest(SECRET, b"answerer" + covered, "sha256")


def test_a_caller_with_another_secret_is_refused() -> None:
    caller, answerer = call(1, 0, OTHER_SECRET, NONCE_A), answer(0, nothing_against, SECRET, NONCE_B)
    hello, _ = next(caller)
    next(answerer)
    challenge, _ = answerer.send(hello)
    proof, _ = caller.send(challenge)
    with pytest.raises(HandshakeRefused) as refused:
        answerer.send(proof)
    assert str(refused.value) == WRONG_PROOF


def test_an_answerer_with_another_secret_is_refused() -> None:
    caller = call(1, 0, SECRET, NONCE_A)
    next(caller)
    caller.send(CHALLENGE.pack(MAGIC, 2, NONCE_B))
    with pytest.raises(HandshakeRefused) as refused:
        caller.send(bytes(32))
    assert str(refused.value) == WRONG_PROOF


def test_a_replayed_conversation_is_refused_because_the_nonce_is_new() -> None:
    _, _, (hello, _, proof, _) = converse(call(1, 0, SECRET, NONCE_A), answer(0, nothing_against, SECRET, NONCE_B))
    answerer = answer(0, nothing_against, SECRET, NONCE_C)
    next(answerer)
    answerer.send(hello)
    with pytest.raises(HandshakeRefused) as refused:
        answerer.send(proof)
    assert str(refused.value) == WRONG_PROOF


def test_a_callers_own_proof_thrown_back_at_it_is_refused() -> None:
    caller = call(1, 0, SECRET, NONCE_A)
    next(caller)
    proof, _ = caller.send(CHALLENGE.pack(MAGIC, 2, NONCE_A))
    with pytest.raises(HandshakeRefused) as refused:
        caller.send(proof)
    assert str(refused.value) == WRONG_PROOF


@pytest.mark.parametrize(
    ("hello", "message"),
    [
        (
            HELLO.pack(b"GET / HT", 2, 1, 0, 0, NONCE_A),
            "wrong magic: it begins with b'GET / HT', not b'WEFTHAND': not one of Weft's.",
        ),
        (HELLO.pack(MAGIC, 3, 1, 0, 0, NONCE_A), "wrong version: it speaks version 3, but this is version 2."),
        (HELLO.pack(MAGIC, 2, 1, 5, 0, NONCE_A), "wrong rank: it looks for rank 5, but this is rank 0."),
    ],
)
def test_a_hello_that_is_not_meant_for_this_process_is_refused(hello: bytes, message: str) -> None:
    answerer = answer(0, nothing_against, SECRET, NONCE_B)
    next(answerer)
    with pytest.raises(HandshakeRefused) as refused:
        answerer.send(hello)
    assert str(refused.value) == message


def test_a_challenge_of_another_version_is_refused() -> None:
    caller = call(1, 0, SECRET, NONCE_A)
    next(caller)
    with pytest.raises(HandshakeRefused) as refused:
        caller.send(CHALLENGE.pack(MAGIC, 7, NONCE_B))
    assert str(refused.value) == "wrong version: it speaks version 7, but this is version 2."


def test_a_rank_that_is_not_awaited_is_refused_only_after_its_proof() -> None:
    caller, answerer = call(1, 0, SECRET, NONCE_A), answer(0, lambda rank, view: "duplicate rank", SECRET, NONCE_B)
    hello, _ = next(caller)
    next(answerer)
    challenge, _ = answerer.send(hello)
    proof, _ = caller.send(challenge)
    with pytest.raises(HandshakeRefused) as refused:
        answerer.send(proof)
    assert str(refused.value) == "duplicate rank: it is rank 1, which is not awaited by rank 0."


def candidates() -> tuple[Candidate, Candidate]:
    """A caller, rank 1, and an answerer, rank 0, over a pair of sockets."""
    pair = socket.socketpair()
    for end in pair:
        end.setblocking(False)
    return (
        Candidate(pair[0], lambda certified: call(1, 0, SECRET, NONCE_A), 0.0),
        Candidate(pair[1], lambda certified: answer(0, nothing_against, SECRET, NONCE_B), 0.0),
    )


def test_candidates_go_on_as_far_as_the_other_has_spoken() -> None:
    caller, answerer = candidates()
    with closing(caller.sock), closing(answerer.sock):
        ranks = [end.advance() for end in (answerer, caller, answerer, caller, answerer, caller)]
    assert ranks == [None, None, None, None, 1, 0]


def test_a_candidate_that_hangs_up_is_truncated() -> None:
    caller, answerer = candidates()
    with closing(answerer.sock):
        caller.sock.send(b"WEFT")
        assert answerer.advance() is None
        caller.sock.close()
        with pytest.raises(HandshakeRefused) as refused:
            answerer.advance()
    assert str(refused.value) == "truncated: the connection ended in the middle of the handshake."
