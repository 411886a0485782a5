"""The wires of one process: the listener it opens before it knows the others, and the transport built on it."""

import socket

from weft.core.world import World
from weft.cost.links import Link
from weft.runtime.channel import Job
from weft.runtime.post import rank_of
from weft.transports.bells import Bells
from weft.transports.frames import Layout
from weft.transports.rings import RingTransport
from weft.transports.transport import Transport

LOOPBACK = "127.0.0.1"
SHM, TCP = "shm", "tcp"
TRANSPORTS = (SHM, TCP)

LINKS = {SHM: Link(30e-6, 2e9), TCP: Link(100e-6, 1e9)}
"""What is assumed of a message between two processes of one machine, to choose between collectives.

A message wakes its receiver (65 us by an eventfd) and is answered by Python at both ends; bytes are copied into the
ring or the socket and out of it, while other workers want the same memory. Raw sockets pass 3.6 GB/s when alone.
"""


class Wires:
    """Between the workers of one machine: shared-memory rings, or TCP, on loopback or in the run's own network."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._hosts = job.hosts or [LOOPBACK] * job.num_workers
        self._listener: socket.socket | None = None
        if job.transport == TCP:
            from weft.transports.tcp import listen

            self._listener = listen(self._hosts[job.rank])

    @property
    def port(self) -> int:
        return 0 if self._listener is None else int(self._listener.getsockname()[1])

    def connect(self, world: World, layout: Layout, bells: Bells, ports: list[int]) -> Transport:
        """The transport to all other processes, ready to use."""
        job = self._job
        if self._listener is None:
            return RingTransport(job.descriptors.rings, job.rank, job.num_workers, layout, bells)
        from weft.transports.tcp import TcpTransport

        transport = TcpTransport(
            job.rank,
            job.num_workers,
            self._listener,
            list(zip(self._hosts, ports, strict=True)),
            job.secret,
            layout,
            place=lambda node: rank_of(world, node),
            is_private=bool(job.hosts),
            connect_timeout_s=job.connect_timeout_s,
        )
        transport.connect()
        return transport
