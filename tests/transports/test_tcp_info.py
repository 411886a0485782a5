"""What Linux tells of a TCP connection."""

import socket
from contextlib import suppress
from threading import Event, Thread

import pytest

from weft.transports import tcp_info as module
from weft.transports.tcp_info import traffic

NUM_BYTES = 8 << 20


def pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        caller = socket.create_connection(listener.getsockname(), timeout=10)
        answerer, _ = listener.accept()
    return caller, answerer


def drain(end: socket.socket) -> None:
    left = NUM_BYTES
    while left:
        left -= len(end.recv(1 << 16))


def test_bytes_that_arrived_are_counted() -> None:
    caller, answerer = pair()
    with caller, answerer:
        thread = Thread(target=drain, args=(answerer,))
        thread.start()
        caller.sendall(bytes(NUM_BYTES))
        thread.join()
        told = traffic(caller)
        assert told is not None
        assert NUM_BYTES - (1 << 20) < told.num_bytes <= NUM_BYTES + 1
        assert 0 < told.round_trip_s < 1
        other = traffic(answerer)
        assert other is not None
        assert other.num_bytes <= 1, "each end counts what it sends"
        assert (told.bytes_received, other.bytes_received) == (0, NUM_BYTES)


def test_waiting_for_a_receiver_that_does_not_read_is_no_time_of_the_network() -> None:
    caller, answerer = pair()
    with caller, answerer:
        caller.setblocking(False)
        with suppress(BlockingIOError):
            while caller.send(bytes(1 << 20)):
                pass
        Event().wait(0.3)
        told = traffic(caller)
        assert told is not None
        assert told.network_s < 0.1


def test_where_the_system_does_not_tell_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    caller, answerer = pair()
    with answerer:
        caller.close()
        assert traffic(caller) is None
        monkeypatch.delattr(module.socket, "TCP_INFO")
        assert traffic(answerer) is None
