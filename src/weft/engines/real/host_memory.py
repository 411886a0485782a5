"""The memories of hosts: nameless files and bells that the workers of each share, and how they get the first values."""

import os
from collections.abc import Sequence
from itertools import islice

from weft.runtime.descriptors import Descriptors
from weft.runtime.initial_values import add_piece, pieces
from weft.runtime.messages import WorkerJob
from weft.transports.bells import NUM_BELLS

MEMORIES = ("arena", "rings", "initial", "once")


def make_memories(num_workers: int) -> list[int]:
    """Those of one host with so many workers, as a plain list of descriptors, which are the caller's to close."""
    fds = [os.memfd_create(f"weft-{name}") for name in MEMORIES]
    return fds + [os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK) for _ in range(NUM_BELLS * num_workers)]


def share_out(fds: Sequence[int], hosts: Sequence[int], num_namespaces: int = 0) -> list[Descriptors]:
    """What each host has of the memories of all hosts, one after another, and of the namespaces that follow them."""
    rest = iter(fds)
    counts = [list(hosts).count(host) for host in range(max(hosts) + 1)]
    each = [list(islice(rest, len(MEMORIES) + NUM_BELLS * count)) for count in counts]
    namespaces = list(rest)
    assert len(namespaces) == num_namespaces
    return [Descriptors.of([*some, *namespaces], num_namespaces) for some in each]


def keep_own(fds: Sequence[int], job: WorkerJob) -> Descriptors:
    """What a worker that was forked with the memories of all hosts has on its own; it lets go of the others'."""
    hosts = job.hosts or [0] * job.num_workers
    each = share_out(fds, hosts, len(job.descriptors.namespaces))
    for host, descriptors in enumerate(each):
        for fd in descriptors.flat() if host != hosts[job.rank] else ():
            os.close(fd)
    return each[hosts[job.rank]]


def spread_values(each: Sequence[Descriptors], source: int) -> None:
    """Let all hosts have the first values that worker 0 has written to the file of its own."""
    for host, descriptors in enumerate(each):
        if host != source:
            start = 0
            for piece in pieces(each[source].initial):
                start = add_piece(descriptors.initial, start, piece)
