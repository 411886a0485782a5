"""A link: frames over one connection, whole, in order and without waiting."""

import select
import socket
import struct
from collections.abc import Iterator
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from weft.core.errors import NodeLost, TransportError
from weft.core.names import Bucket
from weft.transports.frames import DATA_BYTES_MAX, HEADER_BYTES, Header, Layout
from weft.transports.link import GOODBYE, LOW_WATER_BYTES, SLICE_BYTES, SocketLink
from weft.transports.tls import TlsError

NUM_ELEMENTS = 4 << 20
LAYOUT = Layout(num_kinds=2, num_nodes=2, buckets=(Bucket(NUM_ELEMENTS), Bucket(10)))
SMALL = np.arange(10, dtype=np.float32)


def header(clock: int = 0, bucket: int = 1, data: bytes = b"", body_bytes: int = 40) -> bytes:
    return Header(1, 0, 1, clock, bucket, (0, 0), 1.0, 4, len(data), body_bytes, crc32(data)).pack()


def pair() -> tuple[socket.socket, socket.socket]:
    """Both ends of a TCP connection, with room for little."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    for end in (near, far):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        end.setblocking(False)
    return near, far


@pytest.fixture
def links() -> Iterator[tuple[SocketLink, SocketLink]]:
    made = tuple(
        SocketLink(rank, sock, lambda rank, raw: LAYOUT.read(raw), 4 * NUM_ELEMENTS) for rank, sock in enumerate(pair())
    )
    yield made[0], made[1]
    for link in made:
        link.sock.close()


def test_what_the_socket_takes_at_once_is_not_copied(links: tuple[SocketLink, SocketLink]) -> None:
    near, far = links
    assert near.send((header(data=b"plain"), b"plain", SMALL.data.cast("B"))) == (HEADER_BYTES + 45, False)
    frame = far.next_frame()
    assert frame is not None
    assert (frame.header.clock, bytes(frame.data), bytes(frame.body)) == (0, b"plain", SMALL.tobytes())
    assert far.next_frame() is None
    assert near.waiting_bytes == 0


def test_the_rest_of_a_large_body_is_copied_and_keeps_the_value_it_had(links: tuple[SocketLink, SocketLink]) -> None:
    near, far = links
    body = np.arange(NUM_ELEMENTS, dtype=np.float32)
    expected = body.copy()
    num_gone, is_copied = near.send((header(bucket=0, body_bytes=body.nbytes), b"", body.data.cast("B")))
    body[:] = -1
    assert is_copied
    assert num_gone + near.waiting_bytes == HEADER_BYTES + body.nbytes
    while (frame := far.next_frame()) is None:
        near.flush()
    assert np.array_equal(np.frombuffer(frame.body, np.float32), expected)
    assert near.waiting_bytes == 0


def test_what_is_lent_is_read_when_it_leaves_unless_it_is_taken_back(links: tuple[SocketLink, SocketLink]) -> None:
    near, far = links
    bodies = [np.full(NUM_ELEMENTS, value, dtype=np.float32) for value in (1, 2)]
    for body in bodies:
        _, is_copied = near.send((header(bucket=0, body_bytes=body.nbytes), b"", body.data.cast("B")), lent_for=body[0])
        assert not is_copied
    assert near.take_back(2.0) == 1
    assert near.take_back(2.0) == 0
    for body in bodies:
        body[-1] = 7
    came: list[float] = []
    while len(came) < 2:
        near.flush()
        if (frame := far.next_frame()) is not None:
            came.append(np.frombuffer(frame.body, np.float32)[-1])
    assert came == [7, 2]
    assert near.waiting_bytes == 0


def test_a_body_is_received_into_the_memory_that_is_found_for_it() -> None:
    sockets = pair()
    near, other = (SocketLink(0, each, lambda rank, raw: LAYOUT.read(raw), 40) for each in sockets)
    room = memoryview(bytearray(40))
    found = [room, None]
    far = SocketLink(1, sockets[1], lambda rank, raw: LAYOUT.read(raw), 40, lambda header: found[header.clock])
    for clock in (0, 1):
        near.send((header(clock, data=b"plain"), b"plain", SMALL.data.cast("B")))
        frame = far.next_frame()
        assert frame is not None
        assert (bytes(frame.data), bytes(frame.body)) == (b"plain", SMALL.tobytes())
        assert (frame.body.obj is room.obj) == (clock == 0)
    assert bytes(room) == SMALL.tobytes()
    for link in (near, other, far):
        link.sock.close()


def test_frames_behind_a_full_outbox_keep_their_order(links: tuple[SocketLink, SocketLink]) -> None:
    near, far = links
    for clock in range(200):
        near.send((header(clock, data=b"x" * 9000), b"x" * 9000, SMALL.data.cast("B")))
    assert near.waiting_bytes > 0
    clocks: list[Any] = []
    while len(clocks) < 200:
        near.flush()
        while (frame := far.next_frame()) is not None:
            clocks.append(frame.header.clock)
    assert clocks == list(range(200))


def test_numbers_are_aligned_whatever_the_size_of_the_data(links: tuple[SocketLink, SocketLink]) -> None:
    near, far = links
    for num_bytes in (0, 1, 3, DATA_BYTES_MAX):
        data = b"d" * num_bytes
        near.send((header(data=data), data, SMALL.data.cast("B")))
        frame = far.next_frame()
        assert frame is not None
        numbers = np.frombuffer(frame.body, np.float32)
        assert numbers.flags.aligned
        assert bytes(frame.data) == data
        assert numbers.tolist() == SMALL.tolist()


def test_memory_for_bodies_is_made_once_and_only_for_a_header_that_was_accepted(
    links: tuple[SocketLink, SocketLink],
) -> None:
    near, far = links
    near.send((Header(1, 0, 1, 0, -1, (0, 0), 1.0, 0, 0, 0, 0).pack(), b""))
    far.next_frame()
    near.send((header(body_bytes=1 << 40), b""))
    with pytest.raises(TransportError) as refused:
        far.next_frame()
    assert str(refused.value) == f"a frame announces {1 << 40} bytes for bucket 1, but its part 0 of 0 has 40."
    assert len(far._room) == DATA_BYTES_MAX


def test_a_frame_may_come_one_byte_at_a_time(links: tuple[SocketLink, SocketLink]) -> None:
    near, far = links
    raw = header(data=b"ab") + b"ab" + SMALL.tobytes()
    for place in range(len(raw) - 1):
        near.sock.send(raw[place : place + 1])
        assert far.next_frame() is None
    near.sock.send(raw[-1:])
    frame = far.next_frame()
    assert frame is not None
    assert bytes(frame.body) == SMALL.tobytes()


def test_a_goodbye_ends_a_link_and_is_no_frame(links: tuple[SocketLink, SocketLink]) -> None:
    near, far = links
    near.send((header(), b"", SMALL.data.cast("B")))
    near.send((GOODBYE,))
    assert far.next_frame() is not None
    assert not far.said_goodbye
    assert far.next_frame() is None
    assert far.said_goodbye
    with pytest.raises(TransportError):
        LAYOUT.read(GOODBYE)


@pytest.mark.parametrize(("sent", "where"), [(b"", "between frames"), (b"WEFT", "in the middle of a frame")])
def test_an_end_without_a_goodbye_is_a_lost_node(links: tuple[SocketLink, SocketLink], sent: bytes, where: str) -> None:
    near, far = links
    near.sock.send(sent)
    near.sock.close()
    with pytest.raises(NodeLost) as lost:
        far.next_frame()
    assert str(lost.value) == (
        f"rank 1 is gone: its connection ended without a goodbye, {where}.\n  What it printed last may say why."
    )


def test_an_end_in_the_middle_of_a_body_is_a_lost_node(links: tuple[SocketLink, SocketLink]) -> None:
    near, far = links
    near.sock.send(header())
    near.sock.close()
    with pytest.raises(NodeLost, match="ended without a goodbye, in the middle of a frame"):
        far.next_frame()


def test_frames_for_nobody_are_dropped_and_reading_tells_why(links: tuple[SocketLink, SocketLink]) -> None:
    near, far = links
    near.send((header(), b"", SMALL.data.cast("B")))
    far.sock.close()  # with something unread: a reset
    large = memoryview(bytes(4 * SLICE_BYTES))
    assert near.send((large,)) == (4 * SLICE_BYTES, False)
    assert near.waiting_bytes == 0
    with pytest.raises(NodeLost) as lost:
        near.next_frame()
    assert str(lost.value).startswith("rank 0 is gone: its connection ")


def test_data_that_was_changed_on_the_way_is_refused(links: tuple[SocketLink, SocketLink]) -> None:
    near, far = links
    near.sock.send(header(data=b"abc") + b"abX" + SMALL.tobytes())
    with pytest.raises(TransportError) as refused:
        far.next_frame()
    assert str(refused.value) == "a frame's data does not match its checksum."


def test_who_has_hung_up_before_its_link_is_made_is_found_out_when_it_is_read_from() -> None:
    near, far = pair()
    far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    far.close()
    link = SocketLink(1, near, lambda rank, raw: LAYOUT.read(raw), 40)
    with pytest.raises(NodeLost, match="rank 1 is gone"):
        link.next_frame()
    near.close()


def low_water(link: SocketLink) -> int:
    return link.sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)


def test_nobody_is_woken_for_little_of_a_large_body_and_for_anything_of_what_is_left(
    links: tuple[SocketLink, SocketLink],
) -> None:
    near, far = links
    assert low_water(far) == 1
    near.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    body = np.arange(NUM_ELEMENTS, dtype=np.float32).data.cast("B")
    near.sock.send(header(bucket=0, body_bytes=body.nbytes))
    assert far.next_frame() is None
    assert low_water(far) > 1 << 12, "half of the room that this socket has"
    near.sock.send(body[:10])
    assert not select.select([far.sock], [], [], 0.05)[0]
    sent = 10
    while body.nbytes - sent >= LOW_WATER_BYTES:
        sent += near.sock.send(body[sent : min(sent + (1 << 16), body.nbytes - LOW_WATER_BYTES + 1)])
        assert far.next_frame() is None
    assert low_water(far) == 1
    near.sock.setblocking(True)
    near.sock.sendall(body[sent:])
    assert select.select([far.sock], [], [], 1.0)[0]
    while (frame := far.next_frame()) is None:
        pass
    assert frame.body == body


class Failing:
    """A socket whose encryption fails."""

    def sendmsg(self, pieces: object) -> int:
        raise TlsError("internal error")

    def recv_into(self, room: object) -> int:
        raise TlsError("decryption failed or bad record mac")


def test_a_connection_whose_encryption_fails_is_said(
    links: tuple[SocketLink, SocketLink], monkeypatch: pytest.MonkeyPatch
) -> None:
    near, _ = links
    with monkeypatch.context() as patched:
        patched.setattr(near, "sock", Failing())
        with pytest.raises(TransportError) as said:
            near.send((header(), b"", SMALL.data.cast("B")))
    assert str(said.value) == "rank 0 cannot be sent to: internal error."


def test_a_connection_that_breaks_by_its_encryption_is_lost_by_name(
    links: tuple[SocketLink, SocketLink], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, far = links
    with monkeypatch.context() as patched:
        patched.setattr(far, "sock", Failing())
        with pytest.raises(NodeLost) as said:
            far.next_frame()
    assert str(said.value) == (
        "rank 1 is gone: its connection broke (decryption failed or bad record mac), between frames.\n"
        "  What it printed last may say why."
    )
