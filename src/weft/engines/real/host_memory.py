"""The memory that a host's workers share (memfd) and their bells (eventfd), and how hosts get the initial values."""

import os
from collections.abc import Sequence
from itertools import islice

from weft.runtime.descriptors import Descriptors
from weft.runtime.initial_values import add_piece, pieces
from weft.runtime.messages import WorkerJob
from weft.transports.bells import NUM_BELLS

MEMORIES = ("arena", "rings", "initial", "once")


def make_memories(num_workers: int) -> list[int]:
    """Create the memfds and eventfds of a host with `num_workers` workers, as a flat list that the caller closes."""
    fds = [os.memfd_create(f"weft-{name}") for name in MEMORIES]
    return fds + [os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK) for _ in range(NUM_BELLS * num_workers)]


def share_out(fds: Sequence[int], hosts: Sequence[int], num_namespaces: int = 0) -> list[Descriptors]:
    """Split `fds` by host: those of `make_memories` for each host in turn, then `num_namespaces` network namespaces.

    Every host gets its own memory and all namespaces.
    """
    rest = iter(fds)
    counts = [list(hosts).count(host) for host in range(max(hosts) + 1)]
    each = [list(islice(rest, len(MEMORIES) + NUM_BELLS * count)) for count in counts]
    namespaces = list(rest)
    assert len(namespaces) == num_namespaces
    return [Descriptors.of([*some, *namespaces], num_namespaces) for some in each]


def keep_own(fds: Sequence[int], job: WorkerJob) -> Descriptors:
    """In a forked worker, which inherits the descriptors of all hosts: keep those of its own host, close the others."""
    hosts = job.hosts or [0] * job.num_workers
    each = share_out(fds, hosts, len(job.descriptors.namespaces))
    for host, descriptors in enumerate(each):
        for fd in descriptors.flat() if host != hosts[job.rank] else ():
            os.close(fd)
    return each[hosts[job.rank]]


def spread_values(each: Sequence[Descriptors], source: int) -> None:
    """Copy the initial values from the memfd of worker 0's host, which is `source`, to those of all other hosts."""
    for host, descriptors in enumerate(each):
        if host != source:
            start = 0
            for piece in pieces(each[source].initial):
                start = add_piece(descriptors.initial, start, piece)
