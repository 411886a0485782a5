"""Descriptors that one process hands to another (SCM_RIGHTS), with a few words, over a local socket that keeps packets
apart (SOCK_SEQPACKET)."""

import os
import socket

import msgspec

FDS_PER_MESSAGE = 200
"""The system takes 253 at most."""
WORDS_BYTES_MAX = 1 << 12


class Handed(msgspec.Struct, frozen=True):
    """What goes with descriptors: how many there are in all, and what is said of them."""

    num_fds: int
    words: bytes


def send_fds(end: socket.socket, words: bytes, fds: list[int]) -> None:
    """Hand descriptors over, as many at a time as the system takes; at least one."""
    packet = msgspec.msgpack.encode(Handed(len(fds), words))
    for start in range(0, len(fds), FDS_PER_MESSAGE):
        socket.send_fds(end, [packet], fds[start : start + FDS_PER_MESSAGE])


def receive_fds(end: socket.socket) -> tuple[bytes, list[int]] | None:
    """What was said, and all descriptors, which are the caller's to close; None at the end."""
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
