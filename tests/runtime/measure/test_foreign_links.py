"""Connections that a library has made are found by who is at their other end."""

import socket

from weft.runtime.measure.foreign_links import foreign_links

HERE = "127.0.0.1"
NUM_BYTES = 10_000


def test_connections_to_another_worker_are_added_up_and_others_left_out() -> None:
    with socket.create_server((HERE, 0)) as listener:
        assert foreign_links(["10.77.0.1", HERE]) == []
        ends = []
        for _ in range(2):
            ends.append(socket.create_connection(listener.getsockname(), timeout=10))
            ends.append(listener.accept()[0])
            ends[-2].sendall(bytes(NUM_BYTES))
            assert len(ends[-1].recv(NUM_BYTES, socket.MSG_WAITALL)) == NUM_BYTES
        (link,) = foreign_links(["10.77.0.1", HERE])
        assert link.peer == 1
        assert NUM_BYTES <= link.num_bytes <= 2 * NUM_BYTES + 4
        assert link.round_trip_s > 0
        assert foreign_links(["10.77.0.1", "10.77.0.2"]) == []
        assert ends[0].fileno() >= 0
        ends[0].sendall(b"still open")
        for end in ends:
            end.close()
