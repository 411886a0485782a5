"""Connections between all hosts: made with the secret, or not made for a reason that is named."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from weft.core.errors import NodeLost, TransportError
from weft.engines.diagnose.cluster.connections import (
    BROKEN,
    CLOSED,
    NO_WAY,
    NOT_CALLED,
    SILENT,
    STRANGER,
    HostConnections,
    cause,
    connect,
)
from weft.transports.dialing import Address, dial
from weft.transports.door import listen

SECRET, OTHER = bytes(32), bytes([1]) * 32


@pytest.fixture
def hosts() -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        yield [stack.enter_context(listen("127.0.0.1")) for _ in range(3)]


def connected(
    hosts: list[socket.socket], secrets: list[bytes], timeout_s: float, addresses: list[Address] | None = None
) -> list[HostConnections]:
    """What each host has got when all who have a secret have called each other."""
    places = addresses or [listener.getsockname() for listener in hosts]
    with ThreadPoolExecutor(len(hosts)) as threads:
        parts = [
            threads.submit(connect, me, places, listener, secret, timeout_s)
            for me, (listener, secret) in enumerate(zip(hosts, secrets, strict=False))
        ]
        return [part.result() for part in parts]


def test_every_host_gets_a_connection_to_every_other(hosts: list[socket.socket]) -> None:
    meshes = connected(hosts, [SECRET] * 3, 10.0)
    assert [(set(mesh.links), mesh.failed) for mesh in meshes] == [({1, 2}, {}), ({0, 2}, {}), ({0, 1}, {})]
    for caller, answerer in ((1, 0), (2, 0), (2, 1)):
        ends = meshes[caller].links[answerer], meshes[answerer].links[caller]
        for end in ends:
            end.settimeout(5.0)
        ends[0].sendall(f"{caller} to {answerer}".encode())
        assert ends[1].recv(100) == f"{caller} to {answerer}".encode()
        assert ends[0].version() == "TLSv1.3"
    for mesh in meshes:
        mesh.close()


@pytest.mark.slow
def test_a_host_with_another_secret_is_a_stranger_to_all(hosts: list[socket.socket]) -> None:
    meshes = connected(hosts, [SECRET, SECRET, OTHER], 1.0)
    assert [set(mesh.links) for mesh in meshes] == [{1}, {0}, set()]
    assert [mesh.failed[2][0] for mesh in meshes[:2]] == [NOT_CALLED] * 2
    assert {other: why for other, (why, _) in meshes[2].failed.items()} == {0: STRANGER, 1: STRANGER}
    assert meshes[2].failed[0][1].startswith("rank 0 at 127.0.0.1:")
    assert meshes[0].refused == {"wrong certificate": 1}
    for mesh in meshes:
        mesh.close()


def test_a_host_that_does_not_speak_and_one_that_is_gone_are_told_apart(hosts: list[socket.socket]) -> None:
    places = [listener.getsockname() for listener in hosts]
    hosts[0].close()
    mesh = connect(2, places, hosts[2], SECRET, 0.3)  # nobody serves host 1
    assert {other: why for other, (why, _) in mesh.failed.items()} == {0: CLOSED, 1: SILENT}
    assert mesh.links == {}


def test_who_is_not_called_says_so(hosts: list[socket.socket]) -> None:
    mesh = connect(0, [listener.getsockname() for listener in hosts], hosts[0], SECRET, 0.1)
    assert mesh.failed == {
        1: (NOT_CALLED, "nothing came from it within 0.1 s."),
        2: (NOT_CALLED, "nothing came from it within 0.1 s."),
    }


def test_a_network_without_a_way_is_a_cause_of_its_own() -> None:
    with pytest.raises(TransportError) as failed:
        dial(("255.255.255.255", 9), 1, 0, SECRET, None, 1.0)
    assert cause(failed.value) == NO_WAY
    assert cause(NodeLost("it is gone.")) == CLOSED
    assert cause(TransportError("something else.")) == BROKEN
