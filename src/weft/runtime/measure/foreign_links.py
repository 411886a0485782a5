"""Reads, by TCP_INFO, the traffic of TCP connections to other workers that a library in this process (Gloo) made."""

import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from weft.observe.records.status import LinkStatus
from weft.transports.tcp_info import traffic

DESCRIPTORS = Path("/proc/self/fd")


def foreign_links(addresses: Sequence[str]) -> list[LinkStatus]:
    """The traffic to each other worker, summed over its connections; `addresses` has those of all workers, by rank."""
    links: dict[int, LinkStatus] = {}
    for name in os.listdir(DESCRIPTORS):
        with suppress(OSError):  # the descriptor was closed meanwhile, or the socket is not connected
            if not os.readlink(DESCRIPTORS / name).startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(name))) as sock:
                peer = _peer(sock, addresses)
                told = None if peer is None else traffic(sock)
            if peer is not None and told is not None:
                so_far = links.get(peer, LinkStatus(peer, 0.0, 0, told.round_trip_s))
                links[peer] = LinkStatus(
                    peer,
                    so_far.network_s + told.network_s,
                    so_far.num_bytes + told.num_bytes,
                    min(so_far.round_trip_s, told.round_trip_s),
                    so_far.bytes_received + told.bytes_received,
                )
    return [links[peer] for peer in sorted(links)]


def _peer(sock: socket.socket, addresses: Sequence[str]) -> int | None:
    """The rank of the worker at the other end of a TCP connection; None if it is not a worker."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6) or sock.type != socket.SOCK_STREAM:
        return None
    address = sock.getpeername()[0].removeprefix("::ffff:")
    return addresses.index(address) if address in addresses else None
