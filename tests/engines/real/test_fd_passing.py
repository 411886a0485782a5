"""Descriptors reach another process whole and in order, or not at all."""

import os
import socket
from collections.abc import Iterator

import msgspec
import pytest

from weft.engines.real.fd_passing import FDS_PER_MESSAGE, Handed, receive_fds, send_fds

Ends = tuple[socket.socket, socket.socket]


@pytest.fixture(name="ends")
def two_ends() -> Iterator[Ends]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


@pytest.fixture(name="pipe")
def one_pipe() -> Iterator[tuple[int, int]]:
    readable, writable = os.pipe()
    yield readable, writable
    os.close(readable)
    os.close(writable)


def num_open() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_more_descriptors_than_fit_into_one_message_arrive_in_order(ends: Ends) -> None:
    ours, theirs = ends
    pipes = [os.pipe() for _ in range(FDS_PER_MESSAGE // 2 + 10)]
    fds = [fd for pipe in pipes for fd in pipe]
    send_fds(ours, b"for you", fds)
    received = receive_fds(theirs)
    assert received is not None
    assert received[0] == b"for you"
    assert [os.fstat(fd).st_ino for fd in received[1]] == [os.fstat(fd).st_ino for fd in fds]
    for fd in (*fds, *received[1]):
        os.close(fd)


def test_an_end_that_is_gone_hands_over_nothing(ends: Ends) -> None:
    ends[0].close()
    assert receive_fds(ends[1]) is None


def test_one_that_ends_in_the_midst_leaves_no_descriptor_behind(ends: Ends, pipe: tuple[int, int]) -> None:
    ours, theirs = ends
    socket.send_fds(ours, [msgspec.msgpack.encode(Handed(3, b""))], list(pipe))
    ours.close()
    before = num_open()
    assert receive_fds(theirs) is None
    assert num_open() == before


def test_silence_in_the_midst_is_a_timeout_and_leaves_no_descriptor_behind(ends: Ends, pipe: tuple[int, int]) -> None:
    ours, theirs = ends
    theirs.settimeout(0.01)
    socket.send_fds(ours, [msgspec.msgpack.encode(Handed(3, b""))], list(pipe))
    before = num_open()
    with pytest.raises(TimeoutError):
        receive_fds(theirs)
    assert num_open() == before
