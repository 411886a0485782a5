"""Whole messages over a stream socket, whatever the pieces in which the system takes and gives them."""

import random
import socket
from collections.abc import Callable, Iterator
from threading import Thread

import pytest

from weft.core.errors import TransportError
from weft.transports.certificates import Authority, contexts
from weft.transports.framed_socket import LENGTH, RECORD_BYTES, FramedSocket, framed
from weft.transports.handshake import certified_name
from weft.transports.tls import Connection, TlsSocket

BYTES_MAX = 8 << 20
Ends = tuple[Connection, Connection]


@pytest.fixture(name="ends")
def two_ends() -> Iterator[Ends]:
    """A pair of sockets, closed afterwards."""
    mine, theirs = socket.socketpair()
    with mine, theirs:
        yield mine, theirs


def connections(ends: Ends) -> tuple[FramedSocket, FramedSocket]:
    return FramedSocket(ends[0], BYTES_MAX), FramedSocket(ends[1], BYTES_MAX)


def taken(end: FramedSocket) -> list[bytes]:
    """All that is whole by now."""
    messages = []
    while (message := end.take()) is not None:
        messages.append(bytes(message))
    return messages


def read_all(end: FramedSocket, num_messages: int, meanwhile: Callable[[], None] = lambda: None) -> list[bytes]:
    """So many messages, however many reads they take."""
    messages: list[bytes] = []
    while len(messages) < num_messages:
        meanwhile()
        end.read()
        messages += taken(end)
    return messages


def test_a_message_goes_behind_its_length() -> None:
    assert framed(b"abc") == b"\3\0\0\0abc"


def test_messages_come_whole_and_in_order_and_may_be_empty(ends: Ends) -> None:
    one, other = connections(ends)
    for message in (b"first", b"", b"third"):
        one.send(framed(message))
    assert read_all(other, 3) == [b"first", b"", b"third"]


def test_nothing_there_is_none_and_the_end_of_the_stream_is_zero(ends: Ends) -> None:
    one, other = connections(ends)
    assert other.read() is None
    one.send(framed(b"x"))
    one.close()
    assert other.read(wait=True) == LENGTH.size + 1
    assert other.read(wait=True) == 0
    assert taken(other) == [b"x"], "what came before the end is not lost"


def test_what_the_other_end_began_to_say_when_it_ended_is_no_message(ends: Ends) -> None:
    _, other = connections(ends)
    ends[0].sendall(framed(b"abc")[:-1])
    ends[0].close()
    assert other.read(wait=True) == LENGTH.size + 2
    assert other.read(wait=True) == 0
    assert other.take() is None


@pytest.mark.parametrize("seed", range(5))
def test_pieces_of_any_size_are_put_together(ends: Ends, seed: int) -> None:
    rng = random.Random(seed)
    said = [rng.randbytes(rng.choice((0, 1, 3, 4, 5, 100, 3000))) for _ in range(40)]
    raw, other, heard = b"".join(map(framed, said)), connections(ends)[1], []
    while raw:
        size = rng.randint(1, 900)
        ends[0].sendall(raw[:size])
        raw = raw[size:]
        assert other.read(bytes_max=rng.randint(1, 2000)) is not None
        heard += taken(other)
    while other.read() is not None:
        heard += taken(other)
    assert heard == said


def test_a_message_that_nobody_has_taken_yet_stays(ends: Ends) -> None:
    one, other = connections(ends)
    one.send(framed(b"first") + framed(b"second"))
    other.read(wait=True)
    assert other.take() == b"first"
    assert other.read() is None
    assert other.take() == b"second"


def test_what_is_too_long_is_refused_as_soon_as_its_length_is_known(ends: Ends) -> None:
    _, other = connections(ends)
    ends[0].sendall(framed(b"good") + LENGTH.pack(BYTES_MAX + 1))
    other.read(wait=True)
    assert other.take() == b"good"
    with pytest.raises(TransportError) as refused:
        other.take()
    assert str(refused.value) == f"a message of {BYTES_MAX + 1} bytes was announced; {BYTES_MAX} are the most."


def test_what_the_socket_does_not_take_at_once_waits_in_order_and_leaves_by_and_by(ends: Ends) -> None:
    one, other = connections(ends)
    said = [bytes([number]) * (1 << 20) for number in range(4)]
    for message in said:
        one.queue(framed(message))
    assert 0 < one.waiting_bytes < len(said) * ((1 << 20) + LENGTH.size)
    assert read_all(other, len(said), one.flush) == said
    assert one.waiting_bytes == 0


def test_what_is_sent_does_not_overtake_what_waits(ends: Ends) -> None:
    one, other = connections(ends)
    said = [b"a" * (1 << 20), b"b"]
    one.queue(framed(said[0]))
    assert one.waiting_bytes
    sending = Thread(target=one.send, args=(framed(said[1]),))
    sending.start()
    assert read_all(other, 2) == said
    sending.join()
    assert one.waiting_bytes == 0


def test_what_is_tried_goes_whole_or_not_at_all(ends: Ends) -> None:
    one, other = connections(ends)
    num_went = 0
    while one.try_send(framed(b"x" * 1000)):
        num_went += 1
    assert num_went > 0
    assert one.waiting_bytes == 0
    assert read_all(other, num_went) == [b"x" * 1000] * num_went
    assert other.read() is None


def test_what_is_tried_does_not_overtake_what_waits(ends: Ends) -> None:
    one, _ = connections(ends)
    one.queue(framed(b"a" * (1 << 20)))
    assert not one.try_send(framed(b"b"))


def test_half_a_message_is_finished_even_if_it_was_only_tried(ends: Ends) -> None:
    one, other = connections(ends)
    long = bytes(1 << 20)  # more than the socket takes at once
    went: list[bool] = []
    trying = Thread(target=lambda: went.append(one.try_send(framed(long))))
    trying.start()
    assert read_all(other, 1) == [long]
    trying.join()
    assert went == [True]


def test_waiting_for_the_first_byte_ends_at_the_timeout_of_the_socket(ends: Ends) -> None:
    _, other = connections(ends)
    ends[1].settimeout(0.01)
    with pytest.raises(TimeoutError):
        other.read(wait=True)


@pytest.mark.parametrize("how", ["send", "try_send", "queue"])
def test_an_end_that_is_gone_is_an_error_of_the_system(ends: Ends, how: str) -> None:
    one, other = connections(ends)
    other.close()
    with pytest.raises(OSError, match="Broken pipe"):
        getattr(one, how)(framed(b"x"))


def test_closing_drops_what_waits(ends: Ends) -> None:
    one, _ = connections(ends)
    one.queue(framed(b"a" * (1 << 20)))
    one.close()
    assert one.waiting_bytes == 0
    assert one.fileno() == -1


def test_tls_is_read_and_written_without_waiting() -> None:
    authority = Authority.of(bytes(32))
    mine, theirs = socket.socketpair()
    call = TlsSocket(contexts(authority.issue(0)).call, mine, certified_name(1))
    answer = TlsSocket(contexts(authority.issue(1)).answer, theirs)
    with mine, theirs:
        for sock in (call, answer):
            sock.setblocking(False)
        shake_hands(call, answer)
        one, other = connections((call, answer))
        said = [bytes([number]) * (RECORD_BYTES + 1) for number in range(100)]
        for message in said:
            one.queue(framed(message))
        assert one.waiting_bytes > 0
        assert read_all(other, len(said), one.flush) == said


def shake_hands(*ends: TlsSocket) -> None:
    """In turn, until all have."""
    waiting = list(ends)
    while waiting:
        for end in list(waiting):
            try:
                end.do_handshake()
            except BlockingIOError:
                continue
            waiting.remove(end)
