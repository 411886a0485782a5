"""Whole meshes of TCP transports in one process, and frames for them."""

import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic
from typing import Any, TypeVar
from zlib import crc32

import numpy as np

from weft.core.names import Bucket, NodeId
from weft.transports.certificates import Authority, contexts
from weft.transports.door import listen
from weft.transports.frames import Header, Layout
from weft.transports.tcp import TcpTransport
from weft.transports.transport import Frame, Rank, Transport

T = TypeVar("T")

SECRET = b"s" * 32
PATIENCE_S = 10.0
"""After so long something that should happen never will."""
NUM_ELEMENTS = 3 << 20
LAYOUT = Layout(num_kinds=2, num_nodes=3, buckets=(Bucket(10), Bucket(NUM_ELEMENTS)))
SMALL = np.arange(10, dtype=np.float32)


class Mesh:
    """The transports of a run in one process, connected, and a clock that is set by hand."""

    def __init__(
        self,
        num_processes: int,
        *,
        is_encrypted: bool = False,
        survives: bool = False,
        rank_of: Callable[[NodeId], Rank | None] = lambda node: node,
    ) -> None:
        self.now_s = 0.0
        self.broken: list[tuple[Rank, Rank]] = []
        """Who has noticed that the connection to whom broke."""
        self.authority = Authority() if is_encrypted else None
        listeners = [listen("127.0.0.1") for _ in range(num_processes)]
        self.addresses = [listener.getsockname() for listener in listeners]
        self.transports = [
            TcpTransport(
                rank,
                num_processes,
                listener,
                self.addresses,
                SECRET,
                LAYOUT,
                rank_of=rank_of,
                on_broken=partial(self._hear_of_broken, rank) if survives else None,
                tls=contexts(self.authority.issue(rank)) if self.authority else None,
                clock=lambda: self.now_s,
            )
            for rank, listener in enumerate(listeners)
        ]
        together([transport.connect for transport in self.transports])
        self.strangers: list[socket.socket] = []
        self.dead: list[TcpTransport] = []
        """Those in whose places newcomers are."""

    def _hear_of_broken(self, rank: Rank, other: Rank) -> None:
        self.broken.append((rank, other))

    def newcomer(self, rank: int, first_view: int) -> TcpTransport:
        """A process that takes the place of `rank`, which is dead; nobody has called it yet."""
        listener = listen("127.0.0.1")
        self.addresses[rank] = listener.getsockname()
        self.dead.append(self.transports[rank])
        self.transports[rank] = TcpTransport(
            rank,
            len(self.addresses),
            listener,
            self.addresses,
            SECRET,
            LAYOUT,
            rank_of=lambda node: node,
            on_broken=partial(self._hear_of_broken, rank),
            first_view=first_view,
            connect_timeout_s=2.0,
        )
        self.transports[rank].connect()
        return self.transports[rank]

    def ports(self, *ranks: int) -> dict[int, int]:
        return {rank: self.addresses[rank][1] for rank in ranks}

    def stranger(self, rank: int = 0) -> socket.socket:
        self.strangers.append(socket.create_connection(self.addresses[rank]))
        return self.strangers[-1]

    def close(self) -> None:
        for stranger in self.strangers:
            stranger.close()
        for transport in self.transports:
            transport.close()
        for transport in self.dead:
            transport.abort()


def together(jobs: Sequence[Callable[[], T]]) -> list[T]:
    """What the jobs return, each run in a thread of its own."""
    with ThreadPoolExecutor(len(jobs)) as pool:
        return [future.result() for future in [pool.submit(job) for job in jobs]]


Taken = tuple[Header, bytes, bytes]


def frame(source: int, target: int, clock: int = 0, data: bytes = b"", body: Any = SMALL) -> tuple[bytes, bytes, Any]:
    """The arguments of send: a whole bucket of the body's size, or no body."""
    if body is None:
        return Header(0, source, target, clock, -1, (0, 0), 1.0, 0, len(data), 0, crc32(data)).pack(), data, None
    bucket = 0 if body.size == 10 else 1
    header = Header(1, source, target, clock, bucket, (0, 0), 1.0, 4, len(data), body.nbytes, crc32(data))
    return header.pack(), data, memoryview(body)


def exchange(transports: Sequence[Transport], num_frames: int) -> dict[int, list[Taken]]:
    """Poll all in turn until so many frames came; what each took."""
    taken: dict[int, list[Taken]] = {place: [] for place in range(len(transports))}
    deadline_s = monotonic() + PATIENCE_S
    while sum(map(len, taken.values())) < num_frames:
        assert monotonic() < deadline_s, f"only {taken} came"
        for place, transport in enumerate(transports):
            transport.poll(partial(_keep, taken[place]))
    return taken


def _keep(taken: list[Taken], it: Frame) -> None:
    taken.append((it.header, bytes(it.data), bytes(it.body)))


def polled_until(
    transport: TcpTransport, is_done: Callable[[], bool], meanwhile: Callable[[], Any] = lambda: None
) -> None:
    """Poll until it is so; fails when it never is."""
    deadline_s = monotonic() + PATIENCE_S
    while not is_done():
        assert monotonic() < deadline_s, f"refused {transport.refused}, gone {transport.gone}"
        meanwhile()
        transport.wait(0.01)
        transport.poll(lambda it: None)
