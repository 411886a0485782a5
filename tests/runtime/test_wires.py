"""The wires of one process: rings in shared memory, or sockets on the loopback interface."""

from concurrent.futures import ThreadPoolExecutor

from hosts import Host

from weft.core.names import Bucket, Roles
from weft.core.world import World
from weft.runtime.channel import Descriptors, Job
from weft.runtime.wires import LOOPBACK, SHM, TCP, TRANSPORTS, Wires
from weft.transports.frames import Header, Layout
from weft.transports.rings import RingTransport
from weft.transports.tcp import TcpTransport

BUCKETS = (Bucket(4),)
WORLD = World(Roles(2), BUCKETS)
LAYOUT = Layout(1, 2, BUCKETS)


def job(rank: int, transport: str, rings: int = -1) -> Job:
    return Job(
        rank, 2, 0, "train.py", [], None, None, 1.0, transport, b"s" * 32, True, 0.0, 1, 1, False, None,
        Descriptors(-1, rings, -1, -1, []),
    )  # fmt: skip


def test_both_transports_are_known() -> None:
    assert TRANSPORTS == (SHM, TCP)


def test_rings_need_no_port(tmp_path: object) -> None:
    host = Host(2, BUCKETS)
    wires = Wires(job(0, SHM, host.fd))
    assert wires.port == 0
    assert isinstance(wires.connect(WORLD, LAYOUT, host.bells[0], [0, 0]), RingTransport)


def test_sockets_listen_on_loopback_before_the_others_are_known_and_then_connect() -> None:
    wires = [Wires(job(rank, TCP)) for rank in range(2)]
    ports = [each.port for each in wires]
    assert all(ports)
    assert len(set(ports)) == 2
    assert all(each._listener.getsockname()[0] == LOOPBACK for each in wires)
    host = Host(2, BUCKETS)
    with ThreadPoolExecutor() as pool:
        ends = list(pool.map(lambda rank: wires[rank].connect(WORLD, LAYOUT, host.bells[rank], ports), range(2)))
    try:
        assert all(isinstance(end, TcpTransport) for end in ends)
        ends[1].send(0, Header(0, 1, 0, 7, 0, (0, 0), 1.0, 0, 0, 0, 0).pack(), b"", None)
        came: list[int] = []
        while not came:
            ends[0].poll(lambda frame: came.append(frame.header.clock))
        assert came == [7]
    finally:
        for end in ends:
            end.abort()
