"""Network namespaces without names: made, furnished with one device and an address, and entered.

They exist by the processes and descriptors that hold them, and are gone with the last one: nothing is to be removed.
"""

import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

TUN = "/dev/net/tun"
DEVICE = "weft0"
"""The one device, besides loopback, that a worker sees."""
MTU_BYTES = 9000
"""Jumbo frames: six times fewer packets than with 1500 bytes, and less than a millisecond each at 100 Mbit/s."""
WORKERS_MAX = 65_000

CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1
SIOCSIFADDR, SIOCSIFNETMASK, SIOCSIFMTU = 0x8916, 0x891C, 0x8922
SETTINGS = {"tcp_orphan_retries": "1", "tcp_fin_timeout": "1"}
"""Of TCP: what is still in flight when a worker has ended is given up soon, and its namespace with it."""


def address(rank: int) -> str:
    """Where a worker is found in its network."""
    return f"10.77.{(rank + 1) >> 8}.{(rank + 1) & 255}"


def rank_at(raw: bytes) -> int:
    """Whose address these four bytes are; of nobody's address, some number that is no rank."""
    return (raw[2] << 8 | raw[3]) - 1 if raw[:2] == b"\x0a\x4d" else -1


def make_namespace(rank: int) -> tuple[int, int]:
    """A namespace with its device, as two descriptors; the calling thread is in it afterwards."""
    _call("unshare", CLONE_NEWNET)
    tun = os.open(TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    name = DEVICE.encode()
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", name, IFF_TUN | IFF_NO_PI))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, SIOCSIFADDR, _ip_request(name, address(rank)))
        fcntl.ioctl(sock, SIOCSIFNETMASK, _ip_request(name, "255.255.0.0"))
        fcntl.ioctl(sock, SIOCSIFMTU, struct.pack("16si20x", name, MTU_BYTES))
        for device in (name, b"lo"):
            request = fcntl.ioctl(sock, SIOCGIFFLAGS, struct.pack("16sH22x", device, 0))
            (flags,) = struct.unpack_from("H", request, 16)
            fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sH22x", device, flags | IFF_UP))
    for setting, value in SETTINGS.items():
        with suppress(OSError):  # in a container they may not be writable: then TCP is as the system has it
            Path("/proc/sys/net/ipv4", setting).write_text(value)
    return own_namespace(), tun


def own_namespace() -> int:
    """The namespace that the calling thread is in, as a descriptor."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def enter(namespace: int) -> None:
    """Put the calling thread, and all that it starts, into a namespace."""
    _call("setns", namespace, CLONE_NEWNET)


def move_in(namespaces: Sequence[int], rank: int) -> None:
    """Let this process live in its namespace of these, and let go of all others; torch's Gloo is told of the device."""
    enter(namespaces[rank])
    for namespace in namespaces:
        os.close(namespace)
    os.environ["GLOO_SOCKET_IFNAME"] = DEVICE


def _ip_request(name: bytes, ip: str) -> bytes:
    return struct.pack("16sHH4s16x", name, socket.AF_INET, 0, socket.inet_aton(ip))


def _call(function: str, *arguments: int) -> None:
    """Python has these two only since 3.12."""
    if getattr(ctypes.CDLL(None, use_errno=True), function)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), f"{function} failed: {os.strerror(ctypes.get_errno())}")
