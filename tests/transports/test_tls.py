"""TLS in memory: whole records in few calls, whatever the socket takes, and nothing lost at the ends."""

import socket
from collections.abc import Iterator
from threading import Event, Thread

import pytest

from weft.transports.certificates import Authority, contexts
from weft.transports.handshake import certified_name
from weft.transports.tls import RECORD_BYTES_MAX, WRITE_BYTES, NotBelieved, TlsError, TlsSocket, WrongCertificate

SECRET = bytes(32)
Ends = tuple[TlsSocket, TlsSocket]


@pytest.fixture(name="sockets")
def two_sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    mine, theirs = socket.socketpair()
    with mine, theirs:
        yield mine, theirs


def wrapped(sockets: tuple[socket.socket, socket.socket], name: str = certified_name(1)) -> Ends:
    authority = Authority.of(SECRET)
    call, answer = contexts(authority.issue(0)).call, contexts(authority.issue(1)).answer
    return TlsSocket(call, sockets[0], name), TlsSocket(answer, sockets[1])


@pytest.fixture(name="ends")
def two_ends(sockets: tuple[socket.socket, socket.socket]) -> Ends:
    """Both ends after the handshake; they do not block."""
    ends = wrapped(sockets)
    shake_hands(*ends)
    for sock in sockets:
        sock.setblocking(False)
    return ends


def shake_hands(one: TlsSocket, other: TlsSocket) -> None:
    thread = Thread(target=one.do_handshake)
    thread.start()
    other.do_handshake()
    thread.join()


def received(end: TlsSocket, num_bytes: int, meanwhile: TlsSocket) -> bytes:
    came = bytearray()
    while len(came) < num_bytes:
        meanwhile.flush()
        try:
            came += end.recv(num_bytes - len(came))
        except BlockingIOError:
            continue
    return bytes(came)


def test_both_ends_speak_tls_1_3_and_the_called_one_is_named_by_its_certificate(ends: Ends) -> None:
    caller, answerer = ends
    assert caller.version() == answerer.version() == "TLSv1.3"
    assert caller.getpeercert()["subjectAltName"] == (("DNS", certified_name(1)),)


def test_who_is_not_named_as_expected_is_told_so_before_it_is_left(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    caller, answerer = wrapped(sockets, certified_name(7))
    failed: list[BaseException] = []

    def call() -> None:
        try:
            caller.do_handshake()
        except WrongCertificate as error:
            failed.append(error)

    thread = Thread(target=call)
    thread.start()
    with pytest.raises(NotBelieved, match="alert bad certificate"):
        answerer.do_handshake()
    thread.join()
    assert str(failed[0]) == "Hostname mismatch, certificate is not valid for 'rank-7.weft'"


@pytest.mark.parametrize("reads_ahead", [False, True])
def test_all_that_was_sent_comes_in_order_though_the_socket_takes_only_some(ends: Ends, reads_ahead: bool) -> None:
    near, far = ends
    if reads_ahead:
        far.read_ahead()
    said = bytes(range(256)) * (WRITE_BYTES // 64)
    rest, came = memoryview(said), bytearray()
    while len(came) < len(said):
        while rest:
            try:
                num_bytes = near.sendmsg((rest[:100], rest[100:]))
            except BlockingIOError:
                break
            assert 0 < num_bytes <= WRITE_BYTES
            rest = rest[num_bytes:]
        near.flush()
        try:
            came += far.recv(1 << 20)
        except BlockingIOError:
            continue
    assert bytes(came) == said
    assert near.unsent_bytes == far.pending() == 0


def test_what_the_socket_does_not_take_waits_and_nothing_more_is_taken_before_it(ends: Ends) -> None:
    near, far = ends
    num_bytes = 0
    while not near.unsent_bytes:
        num_bytes += near.send(bytes(WRITE_BYTES))
    with pytest.raises(BlockingIOError):
        near.send(b"more")
    assert 0 < near.unsent_bytes < 2 * WRITE_BYTES
    assert received(far, num_bytes, near) == bytes(num_bytes)
    assert near.unsent_bytes == 0


def test_nothing_is_read_behind_the_awaited_record_unless_that_is_asked_for(ends: Ends) -> None:
    near, far = ends
    for word in (b"one", b"two", b"three"):
        near.send(word)
    assert far.recv(RECORD_BYTES_MAX) == b"one"
    assert far.pending() == 0, "a selector sees what is left"
    far.read_ahead()
    assert far.recv(3) == b"two"
    assert far.pending() > 0
    assert far.recv(RECORD_BYTES_MAX) == b"three"
    assert far.pending() == 0
    with pytest.raises(BlockingIOError):
        far.recv(1)


def test_the_end_of_the_stream_comes_behind_all_that_was_sent(ends: Ends) -> None:
    near, far = ends
    near.send(b"last words")
    near.shutdown(socket.SHUT_WR)
    assert far.recv(100) == b"last words"
    assert far.recv(100) == b""


def test_a_socket_that_blocks_takes_everything_and_waits_for_what_comes(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    near, far = wrapped(sockets)
    shake_hands(near, far)
    thread = Thread(target=near.sendall, args=(bytes(4 * WRITE_BYTES),))
    thread.start()
    assert received(far, 4 * WRITE_BYTES, far) == bytes(4 * WRITE_BYTES)
    thread.join()
    far.settimeout(0.01)
    with pytest.raises(TimeoutError):
        far.recv(1)


def test_a_handshake_that_drips_takes_no_longer_than_the_timeout(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    caller, _ = wrapped(sockets)
    caller.settimeout(0.2)
    stop = Event()

    def drip() -> None:
        for byte in b"\x16\x03\x03\x10\x00" + bytes(100):
            if stop.wait(0.05):
                return
            sockets[1].send(bytes([byte]))

    thread = Thread(target=drip)
    thread.start()
    with pytest.raises(TimeoutError):
        caller.do_handshake()
    stop.set()
    thread.join()


def test_what_was_changed_on_its_way_is_refused(sockets: tuple[socket.socket, socket.socket]) -> None:
    near, far = wrapped(sockets)
    shake_hands(near, far)
    sockets[0].sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
    with pytest.raises(TlsError) as refused:
        far.recv(1)
    assert refused.value.reason == refused.value.strerror == "decryption failed or bad record mac"


def test_an_end_that_has_heard_the_other_hang_up_does_not_send(ends: Ends) -> None:
    near, far = ends
    near.shutdown(socket.SHUT_WR)
    assert far.recv(1) == b""
    with pytest.raises(BrokenPipeError):
        far.send(b"more")
    assert far.recv(1) == b""


@pytest.mark.parametrize("num_bytes", [0, 1, RECORD_BYTES_MAX, 1 << 20])
def test_a_room_of_any_size_is_filled_from_what_has_come(ends: Ends, num_bytes: int) -> None:
    near, far = ends
    far.read_ahead()
    room = bytearray(b"-" * (num_bytes + 1))
    near.send(b"x" * WRITE_BYTES)
    near.flush()
    come = far.recv_into(memoryview(room)[:num_bytes])
    assert 0 < come <= num_bytes or come == num_bytes == 0
    assert room == b"x" * come + b"-" * (num_bytes + 1 - come)


def test_memory_that_must_not_be_written_to_is_refused_as_a_room(ends: Ends) -> None:
    near, far = ends
    near.send(bytes(range(16)))
    with pytest.raises(BufferError):
        far.recv_into(memoryview(bytes(16)))
    assert far.recv(16) == bytes(range(16))


def test_several_threads_send_while_another_receives_in_both_directions(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    ends, num_messages, num_bytes = wrapped(sockets), 50, 16 << 10
    shake_hands(*ends)
    came: dict[TlsSocket, bytearray] = {end: bytearray() for end in ends}

    def speak(end: TlsSocket, byte: int) -> None:
        for _ in range(num_messages):
            assert end.send(bytes([byte]) * num_bytes) == num_bytes

    def listen(end: TlsSocket) -> None:
        end.read_ahead()
        while len(came[end]) < 2 * num_messages * num_bytes:
            came[end] += end.recv(1 << 20)

    threads = [Thread(target=listen, args=(end,)) for end in ends]
    threads += [Thread(target=speak, args=(end, byte)) for end in ends for byte in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for heard in came.values():
        assert heard.count(1) == heard.count(2) == num_messages * num_bytes
        assert {
            heard[start : start + num_bytes] == heard[start : start + 1] * num_bytes
            for start in range(0, len(heard), num_bytes)
        } == {True}
