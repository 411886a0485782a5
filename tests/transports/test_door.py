"""The door: strangers are refused by name, counted and bounded, and training goes on."""

import logging
import selectors
import socket
from collections.abc import Iterator
from random import Random
from select import select

import pytest
from OpenSSL import SSL
from support.network.meshes import SECRET, SMALL, Mesh, exchange, frame, polled_until

from weft.transports.certificates import Authority, contexts
from weft.transports.door import HANDSHAKE_S_MAX, PENDING_MAX, Door
from weft.transports.frames import VERSION
from weft.transports.handshake import HELLO, MAGIC, Candidate, Steps, answer, call, certified_name
from weft.transports.tls import TlsSocket

NONCE = b"n" * 32
HELLO_OF_1 = HELLO.pack(MAGIC, VERSION, 1, 0, 0, NONCE)


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What doors have logged as a warning."""
    lines: list[str] = []
    handler = logging.Handler(logging.WARNING)
    monkeypatch.setattr(handler, "emit", lambda record: lines.append(record.getMessage()))
    monkeypatch.setattr(logging.getLogger("weft.transports.door"), "handlers", [handler])
    return lines


class Knockers:
    """A door of rank 0 for rank 1, a clock that is set by hand, and those who knock."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.selector = selectors.DefaultSelector()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.door = Door(self.listener, self._begin, None, self.selector, lambda: self.now_s)
        self.knocking: list[socket.socket] = []
        self.let_in: list[socket.socket] = []

    def _begin(self, certified: int | None) -> Steps:
        return answer(0, lambda rank, view: None, SECRET, bytes(32))

    def knock(self) -> socket.socket:
        sock = socket.create_connection(self.listener.getsockname())
        self.knocking.append(sock)
        return sock

    def turn(self) -> list[int]:
        """Serve the door until it is quiet; the ranks that were let in."""
        ranks = []
        while ready := self.selector.select(0):
            for key, _ in ready:
                if key.data is self.door:
                    self.door.accept()
                elif (rank := self.door.advance(key.data)) is not None:
                    ranks.append(rank)
                    self.let_in.append(key.data.sock)
        self.door.dismiss_the_slow()
        return ranks

    def close(self) -> None:
        self.door.close()
        self.selector.close()
        for sock in self.knocking + self.let_in:
            sock.close()


@pytest.fixture
def knockers() -> Iterator[Knockers]:
    made = Knockers()
    yield made
    made.close()


def test_who_knows_the_secret_comes_through_the_door(knockers: Knockers) -> None:
    sock = knockers.knock()
    sock.setblocking(False)
    caller = Candidate(sock, lambda certified: call(1, 0, SECRET, NONCE), 0.0)
    caller.advance()
    assert knockers.turn() == []
    caller.advance()
    assert knockers.turn() == [1]
    assert caller.advance() == 0
    assert knockers.door.refused == {}


def test_one_byte_a_second_is_refused_after_a_few_seconds(knockers: Knockers) -> None:
    sock = knockers.knock()
    for second, byte in enumerate(HELLO_OF_1[:3]):
        knockers.now_s = float(second)
        sock.send(bytes([byte]))
        knockers.turn()
        assert knockers.door.refused == {}
    knockers.now_s = HANDSHAKE_S_MAX
    knockers.turn()
    assert knockers.door.refused == {"too slow": 1}
    assert sock.recv(1) == b""


def test_the_oldest_makes_room_when_too_many_wait(knockers: Knockers) -> None:
    socks = [knockers.knock() for _ in range(PENDING_MAX + 3)]
    knockers.turn()
    assert knockers.door.refused == {"too many at once": 3}
    assert [sock.recv(1) for sock in socks[:3]] == [b""] * 3
    socks[3].setblocking(False)
    with pytest.raises(BlockingIOError):
        socks[3].recv(1)


def test_a_refusal_is_logged_once_for_each_reason_and_always_counted(knockers: Knockers, logged: list[str]) -> None:
    for _ in range(5):
        knockers.knock().send(bytes(HELLO.size))
        knockers.turn()
    host, port = knockers.knocking[0].getsockname()
    assert knockers.door.refused == {"wrong magic": 5}
    assert logged == [
        f"refused a connection from {host}:{port}: wrong magic: it begins with {bytes(8)!r}, not b'WEFTHAND': "
        "not one of Weft's. Others like it are only counted."
    ]


def test_a_closed_door_leaves_no_socket_open() -> None:
    knockers = Knockers()
    with knockers.knock() as sock:
        knockers.turn()
        knockers.door.close()
        assert sock.recv(1) == b""
        assert knockers.listener.fileno() == -1
        assert len(knockers.selector.get_map()) == 0
    knockers.selector.close()


def introduced(mesh: Mesh, me: int, other: int, secret: bytes) -> None:
    """A process that calls, and is heard out."""
    sock = mesh.stranger(0)
    sock.setblocking(False)
    candidate = Candidate(sock, lambda certified: call(me, other, secret, NONCE), 0.0)
    zero = mesh.transports[0]
    polled_until(zero, lambda: sum(zero.refused.values()) == 1, candidate.advance)


@pytest.mark.parametrize(
    ("me", "other", "secret", "reason"),
    [
        (1, 0, SECRET, "duplicate rank"),
        (2, 0, SECRET, "wrong rank"),
        (0, 0, SECRET, "wrong rank"),
        (1, 1, SECRET, "wrong rank"),
        (1, 0, b"x" * 32, "wrong proof"),
    ],
)
def test_who_does_not_belong_is_refused_by_name(mesh: Mesh, me: int, other: int, secret: bytes, reason: str) -> None:
    introduced(mesh, me, other, secret)
    assert mesh.transports[0].refused == {reason: 1}
    mesh.transports[1].send(0, *frame(1, 0))
    assert len(exchange(mesh.transports, 1)[0]) == 1


def test_one_byte_a_second_is_refused_and_holds_nobody_up(mesh: Mesh) -> None:
    zero, one = mesh.transports
    stranger = mesh.stranger()
    for byte in HELLO_OF_1[: int(HANDSHAKE_S_MAX)]:
        stranger.send(bytes([byte]))
        one.send(0, *frame(1, 0))
        exchange(mesh.transports, 1)
        assert zero.refused == {}
        mesh.now_s += 1.0
    zero.poll(lambda it: None)
    assert zero.refused == {"too slow": 1}


def test_ten_thousand_mutated_frames_of_strangers_harm_nobody(mesh: Mesh, logged: list[str]) -> None:
    zero, one = mesh.transports
    random = Random(3)
    good = HELLO_OF_1 + 10 * b"".join(map(bytes, frame(1, 0)))
    for num_strangers in range(20, 1001, 20):
        for _ in range(20):
            mutated = bytearray(good)
            for _ in range(random.randint(1, 200)):
                mutated[random.randrange(len(mutated))] = random.randrange(256)
            with socket.create_connection(mesh.addresses[0]) as stranger:
                stranger.send(mutated[: random.choice([len(mutated), random.randint(1, HELLO.size)])])
        one.send(0, *frame(1, 0))
        assert [body for _, _, body in exchange(mesh.transports, 1)[0]] == [SMALL.tobytes()]
        polled_until(zero, lambda: sum(zero.refused.values()) == num_strangers)  # noqa: B023, called at once
    assert zero.refused.keys() <= {
        "wrong magic",
        "wrong version",
        "wrong rank",
        "wrong proof",
        "truncated",
        "broken off",
    }
    assert len(logged) == len(zero.refused)
    assert zero.gone == {}


def test_a_flood_of_silent_strangers_is_bounded(mesh: Mesh) -> None:
    zero, one = mesh.transports
    for clock in range(100):
        mesh.stranger()
        one.send(0, *frame(1, 0, clock))
        assert [it.clock for it, _, _ in exchange(mesh.transports, 1)[0]] == [clock]
        assert len(zero._door._pending) <= PENDING_MAX
    polled_until(zero, lambda: zero.refused == {"too many at once": 100 - PENDING_MAX})


def test_who_knocks_is_seen_without_looking_for_frames(mesh: Mesh) -> None:
    zero, one = mesh.transports
    one.send(0, *frame(1, 0))
    (door,) = zero.door_set()
    assert not select([door], [], [], 0.2)[0], "a frame is nobody at the door"
    knocker = mesh.stranger()
    assert select([door], [], [], 5.0)[0]
    assert exchange([zero], 1)
    assert zero.is_answering()
    knocker.close()
    assert select([door], [], [], 5.0)[0]
    polled_until(zero, lambda: not zero.is_answering())


def test_a_plain_caller_at_an_encrypted_door_is_refused(encrypted: Mesh) -> None:
    zero = encrypted.transports[0]
    before = zero.refused.get("no TLS", 0)
    encrypted.stranger().send(HELLO_OF_1)
    polled_until(zero, lambda: zero.refused.get("no TLS", 0) > before)
    assert zero.refused["no TLS"] == before + 1


@pytest.mark.parametrize(
    ("is_of_the_job", "rank", "reason"),
    [(False, 1, "wrong certificate"), (True, 5, "wrong certificate"), (True, 1, "duplicate rank")],
)
def test_a_caller_needs_a_certificate_of_the_job_and_of_its_rank(
    encrypted: Mesh, is_of_the_job: bool, rank: int, reason: str
) -> None:
    assert encrypted.authority is not None
    zero = encrypted.transports[0]
    before = zero.refused.get(reason, 0)
    tls = contexts((encrypted.authority if is_of_the_job else Authority()).issue(rank)).call
    tls._context.set_verify(SSL.VERIFY_NONE)  # believes anybody
    sock = encrypted.stranger()
    sock.setblocking(False)
    candidate = Candidate(TlsSocket(tls, sock, certified_name(0)), lambda certified: call(1, 0, SECRET, NONCE), 0.0)
    polled_until(zero, lambda: zero.refused.get(reason, 0) == before + 1, candidate.advance)
    assert zero.refused[reason] == before + 1
