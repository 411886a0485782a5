"""Passes file descriptors and a short message to another process: SCM_RIGHTS over a Unix socket (SOCK_SEQPACKET)."""

import os
import socket

import msgspec

FDS_PER_MESSAGE = 200
"""The kernel takes 253 at most."""
WORDS_BYTES_MAX = 1 << 12


class Handed(msgspec.Struct, frozen=True):
    """The content of each packet: the number of descriptors over all packets, and the message."""

    num_fds: int
    words: bytes


def send_fds(end: socket.socket, words: bytes, fds: list[int]) -> None:
    """Send `words` and at least one descriptor, in packets of FDS_PER_MESSAGE descriptors."""
    packet = msgspec.msgpack.encode(Handed(len(fds), words))
    for start in range(0, len(fds), FDS_PER_MESSAGE):
        socket.send_fds(end, [packet], fds[start : start + FDS_PER_MESSAGE])


def receive_fds(end: socket.socket) -> tuple[bytes, list[int]] | None:
    """Receive `words` and all descriptors, which the caller closes; None if the other end has closed."""
    fds: list[int] = []
    try:
        while True:
            raw, some, _, _ = socket.recv_fds(end, WORDS_BYTES_MAX, FDS_PER_MESSAGE)
            fds += some
            if not raw:
                break
            handed = msgspec.msgpack.decode(raw, type=Handed)
            if len(fds) == handed.num_fds:
                return handed.words, fds
    except BaseException:
        _close(fds)
        raise
    _close(fds)
    return None


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
