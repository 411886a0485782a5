"""The wires of one process: rings in shared memory, or sockets on the loopback interface."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from support.processes.one_host import Host
from support.processes.records import job_with

from weft.core.names import Bucket, Roles
from weft.core.world import World
from weft.runtime.connections import LINKS, LOOPBACK, SHM, TCP, TLS, TORCH, TRANSPORTS, Connections
from weft.runtime.descriptors import Descriptors
from weft.runtime.messages import WorkerJob
from weft.transports.frames import Header, Layout
from weft.transports.mixed import MixedTransport
from weft.transports.rings import RingTransport
from weft.transports.tcp import TcpTransport
from weft.transports.transport import Transport

BUCKETS = (Bucket(4),)
WORLD = World(Roles(2), BUCKETS)
LAYOUT = Layout(1, 2, BUCKETS)


def job(rank: int, transport: str, rings: int = -1, **options: Any) -> WorkerJob:
    return job_with(
        rank=rank,
        num_workers=options.pop("num_workers", 2),
        transport=transport,
        secret=b"s" * 32,
        descriptors=Descriptors(-1, rings, -1, -1, []),
        **options,
    )


def test_all_transports_are_known() -> None:
    assert TRANSPORTS == (SHM, TCP, TORCH)


@pytest.mark.parametrize("transport", [SHM, TORCH])
def test_rings_need_no_port(transport: str) -> None:
    host = Host(2, BUCKETS)
    connections = Connections(job(0, transport, host.fd))
    assert connections.port == 0
    assert isinstance(connections.connect(WORLD, LAYOUT, host.bells[0], [0, 0]), RingTransport)


def test_sockets_listen_on_loopback_before_the_others_are_known_and_then_connect() -> None:
    connections = [Connections(job(rank, TCP)) for rank in range(2)]
    ports = [each.port for each in connections]
    assert all(ports)
    assert len(set(ports)) == 2
    assert all(each._listener.getsockname()[0] == LOOPBACK for each in connections)
    host = Host(2, BUCKETS)
    with ThreadPoolExecutor() as pool:
        ends = list(pool.map(lambda rank: connections[rank].connect(WORLD, LAYOUT, host.bells[rank], ports), range(2)))
    try:
        assert all(isinstance(end, TcpTransport) for end in ends)
        ends[1].send(0, Header(0, 1, 0, 7, 0, (0, 0), 1.0, 0, 0, 0, 0).pack(), b"", None)
        came: list[int] = []
        while not came:
            ends[0].poll(lambda frame: came.append(frame.header.clock))
        assert came == [7]
    finally:
        for end in ends:
            end.abort()  # type: ignore[attr-defined]


HOSTS = [0, 0, 1]


@contextmanager
def apart(transport: str = SHM, **options: Any) -> Iterator[list[Transport]]:
    """Two workers on a host, and one on another."""
    pair, single = Host(2, BUCKETS), Host(1, BUCKETS)
    rings = [os.memfd_create("rings") for _ in range(2)]
    jobs = [job(rank, transport, rings[host], num_workers=3, hosts=HOSTS, **options) for rank, host in enumerate(HOSTS)]
    connections = [Connections(each) for each in jobs]
    bells = [*pair.bells, *single.bells]
    world, layout = World(Roles(3), BUCKETS), Layout(1, 3, BUCKETS)
    ports = [each.port for each in connections]
    with ThreadPoolExecutor() as pool:
        ends = list(pool.map(lambda rank: connections[rank].connect(world, layout, bells[rank], ports), range(3)))
    try:
        yield ends
    finally:
        for end in ends:
            sockets_of(end).abort()
        for host in (pair, single):
            host.close()
        for fd in rings:
            os.close(fd)


def sockets_of(end: Transport) -> TcpTransport:
    found = end._sockets if isinstance(end, MixedTransport) else end
    assert isinstance(found, TcpTransport)
    return found


def test_workers_of_a_host_use_rings_and_talk_tls_to_those_of_others() -> None:
    with apart() as ends:
        assert all(isinstance(end, MixedTransport) for end in ends)
        links = [{to: link.sock.version() for to, link in sockets_of(end)._links.items()} for end in ends]
        assert links == [{2: "TLSv1.3"}, {2: "TLSv1.3"}, {0: "TLSv1.3", 1: "TLSv1.3"}]
        came: dict[int, list[tuple[int, int]]] = {rank: [] for rank in range(3)}
        for source in range(3):
            for target in {0, 1, 2} - {source}:
                ends[source].send(target, Header(0, source, target, 7, 0, (0, 0), 1.0, 0, 0, 0, 0).pack(), b"", None)
        while sum(map(len, came.values())) < 6:
            for rank, end in enumerate(ends):
                end.poll(lambda it, rank=rank: came[rank].append((it.header.source, it.header.clock)))  # type: ignore[misc]
        assert {rank: sorted(got) for rank, got in came.items()} == {
            0: [(1, 7), (2, 7)],
            1: [(0, 7), (2, 7)],
            2: [(0, 7), (1, 7)],
        }


@pytest.mark.parametrize("why", ["is_private", "trusts_network"])
def test_in_a_network_of_the_runs_own_and_in_one_that_is_trusted_nothing_is_encrypted(why: str) -> None:
    options: dict[str, Any] = {why: True}
    with apart(**options) as ends:
        assert [sorted(sockets_of(end)._links) for end in ends] == [[2], [2], [0, 1]]
        assert not any(link._tls for end in ends for link in sockets_of(end)._links.values())


def test_who_wants_sockets_only_has_them_within_a_host_too_and_then_all_are_encrypted() -> None:
    with apart(TCP) as ends:
        assert [sorted(sockets_of(end)._links) for end in ends] == [[1, 2], [0, 2], [0, 1]]
        assert all(link._tls for end in ends for link in sockets_of(end)._links.values())


def test_encryption_is_assumed_to_be_slower_than_plain_sockets() -> None:
    assert LINKS[TLS].bandwidth_bytes_per_s < LINKS[TCP].bandwidth_bytes_per_s
