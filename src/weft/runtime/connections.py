"""The connections of one process: a listener, opened before the other workers' addresses are known, and a transport."""

import socket
from collections.abc import Callable, Collection, Sequence

from weft.core.world import World
from weft.cost.links import Link
from weft.runtime.mailbox import rank_of
from weft.runtime.messages import WorkerJob
from weft.transports.bells import Bells
from weft.transports.frames import Layout
from weft.transports.rings import RingTransport
from weft.transports.transport import Transport

LOOPBACK = "127.0.0.1"
SHM, TCP, TORCH = "shm", "tcp", "torch"
TRANSPORTS = (SHM, TCP, TORCH)
"""Transports between the workers of a host; TORCH: torch.distributed makes the sums, and all else is as with SHM."""
TLS = "tls"
"""The link between hosts, whichever transport is used within them."""

LINKS = {SHM: Link(30e-6, 2e9), TCP: Link(100e-6, 1e9), TORCH: Link(100e-6, 1e9), TLS: Link(150e-6, 0.5e9)}
"""The latency and bandwidth assumed for a message between two processes, by which collectives are chosen.

A message wakes its receiver (65 us by an eventfd) and is handled in Python at both ends; its bytes are copied into the
ring or socket and out of it, while other workers compete for the same memory. Raw sockets alone carry 3.6 GB/s, TLS
2.4 GB/s.
"""


class Connections:
    """Connections to the other workers: rings or TCP on the same host, TCP with TLS to other hosts.

    Traffic within a host is not encrypted: it stays on loopback, or in network namespaces that the launcher has made
    for this run alone. Traffic between hosts is encrypted, unless their network, too, was made for this run alone, or
    the user says that it is trusted (--set network.trusted=true). Every connection is authenticated, everywhere.
    """

    def __init__(self, job: WorkerJob) -> None:
        self._job = job
        self.lost: Callable[[], Collection[int]] = tuple
        """The workers that are lost before this one is connected; it does not wait for them."""
        self.on_broken: Callable[[int], None] | None = None
        """Called with a worker to which the connection broke; None: that ends this worker."""
        self._addresses = job.addresses or [LOOPBACK] * job.num_workers
        self._others = [rank for rank in range(job.num_workers) if rank not in job.on_host]
        """Ranks of the workers of other hosts."""
        self._listener: socket.socket | None = None
        if job.transport == TCP or self._others:
            from weft.transports.door import listen

            self._listener = listen(self._addresses[job.rank])

    @property
    def port(self) -> int:
        return 0 if self._listener is None else int(self._listener.getsockname()[1])

    def connect(self, world: World, layout: Layout, bells: Bells, ports: list[int]) -> Transport:
        """The transport to all other processes, ready to use."""
        job = self._job
        if self._listener is None:
            return self._rings(layout, bells)
        if job.transport == TCP:
            return self._sockets(world, layout, ports, range(job.num_workers))
        from weft.transports.mixed import MixedTransport

        rings = self._rings(layout, bells)
        return MixedTransport(job.on_host, rings, self._sockets(world, layout, ports, self._others))

    def _rings(self, layout: Layout, bells: Bells) -> Transport:
        job = self._job
        is_new = bool(job.first_view)
        return RingTransport(job.descriptors.rings, job.local_rank, len(job.on_host), layout, bells, is_new=is_new)

    def _sockets(self, world: World, layout: Layout, ports: list[int], others: Sequence[int]) -> Transport:
        from weft.transports.tcp import TcpTransport

        job, listener = self._job, self._listener
        assert listener is not None
        tls, is_private = None, job.is_private or job.trusts_network
        if self._others and not is_private:
            from weft.transports.certificates import Authority, contexts

            tls = contexts(Authority.of(job.secret).issue(job.rank))
        transport = TcpTransport(
            job.rank,
            job.num_workers,
            listener,
            list(zip(self._addresses, ports, strict=True)),
            job.secret,
            layout,
            rank_of=lambda node: None if job.survives and node in world.servers else rank_of(world, node),
            on_broken=self.on_broken,
            tls=tls,
            is_private=is_private,
            others=others,
            first_view=job.first_view,
            connect_timeout_s=job.connect_timeout_s,
        )
        transport.connect(self.lost)
        return transport
