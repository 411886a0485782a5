"""The channel between worker and engine: whole messages in order, whatever the pieces they come in."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from support.processes.records import status_with

from weft.core.errors import TransportError
from weft.observe.records.status import Status
from weft.runtime.channel import MESSAGE_BYTES_MAX, Channel
from weft.runtime.descriptors import Descriptors
from weft.runtime.messages import Decided, Halt, Order
from weft.transports.framed_socket import LENGTH


@pytest.fixture(name="ends")
def two_ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A pair of sockets, closed afterwards."""
    mine, theirs = socket.socketpair()
    with mine, theirs:
        yield mine, theirs


Ends = tuple[socket.socket, socket.socket]


def status(rank: int = 0) -> Status:
    return status_with(rank=rank, time_s=1.0, step=2, samples=3.0)


def test_messages_come_whole_and_in_order(ends: Ends) -> None:
    one, other = map(Channel, ends)
    sent: list[Any] = [Order([2, 0, 1]), Decided(True), status(), Halt()]
    for message in sent:
        one.send(message)
    assert list(other.receive(wait=True)) == sent


def test_a_message_that_comes_byte_by_byte_is_put_together(ends: Ends) -> None:
    Channel(ends[0]).send(Order(list(range(1000))))
    packet = ends[1].recv(1 << 16)
    end = Channel(ends[1])
    for byte in packet[:-1]:
        ends[0].send(bytes([byte]))
        assert list(end.receive(wait=False)) == []
    ends[0].send(packet[-1:])
    assert list(end.receive(wait=False)) == [Order(list(range(1000)))]


def test_the_end_of_the_other_side_is_noticed(ends: Ends) -> None:
    one, other = map(Channel, ends)
    one.send(Halt())
    one.close()
    assert list(other.receive(wait=True)) == [Halt()]
    assert list(other.receive(wait=True)) == []
    assert other.is_closed
    with pytest.raises(TransportError, match="the other end of a channel is gone"):
        other.send(Halt())


def test_a_length_beyond_all_bounds_is_refused_before_anything_is_kept(ends: Ends) -> None:
    raw, other = ends[0], Channel(ends[1])
    raw.sendall(LENGTH.pack(MESSAGE_BYTES_MAX + 1))
    with pytest.raises(TransportError, match=f"{MESSAGE_BYTES_MAX} are the most"):
        list(other.receive(wait=True))


def test_what_is_droppable_is_left_out_when_the_other_side_is_slow(ends: Ends) -> None:
    one, other = map(Channel, ends)
    ends[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    went = [one.send(status(), droppable=True) for _ in range(10_000)]
    assert went == sorted(went, reverse=True), "those that went, then those that did not"
    assert set(went) == {True, False}
    first = next(iter(other.receive(wait=True)))
    assert first == status(), "nobody waited, and what came is whole"


def test_descriptors_come_from_a_plain_list() -> None:
    assert Descriptors.of([3, 4, 5, 6, 7, 8, 9, 10]) == Descriptors(3, 4, 5, 6, [[7, 8], [9, 10]])
    assert Descriptors.of([3, 4, 5, 6, 7, 8, 9], 1) == Descriptors(3, 4, 5, 6, [[7, 8]], [9])


def test_what_is_posted_waits_for_room_and_leaves_by_and_by(ends: Ends) -> None:
    one, other = map(Channel, ends)
    said = [Order(list(range(number, number + 1000))) for number in range(200)]
    for message in said:
        one.post(message)
    heard: list[object] = []
    while len(heard) < len(said):
        one.flush()
        heard += other.receive(wait=False)
    assert heard == said


def test_an_end_that_closes_is_lost_unless_this_one_had_finished(ends: Ends) -> None:
    one = Channel(ends[0])
    assert (one.is_closed, one.is_finished, one.is_lost) == (False, False, False)
    ends[1].close()
    assert list(one.receive(wait=True)) == []
    assert (one.is_closed, one.is_finished, one.is_lost) == (True, False, True)
    one.finish()
    assert (one.is_closed, one.is_finished, one.is_lost) == (True, True, False)
