"""Anonymous network namespaces (unshare, setns), each with one TUN device and an address.

The kernel removes a namespace with the last process or descriptor that holds it: nothing has to be cleaned up.
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
"""TCP settings: connections of a worker that has ended are given up soon, so that its namespace is removed."""


def address(rank: int) -> str:
    """The IP address of worker `rank` in the emulated network."""
    return f"10.77.{(rank + 1) >> 8}.{(rank + 1) & 255}"


def rank_at(raw: bytes) -> int:
    """The rank of the worker whose IPv4 address is `raw`; for other addresses, a number that is no rank."""
    return (raw[2] << 8 | raw[3]) - 1 if raw[:2] == b"\x0a\x4d" else -1


def make_namespace(rank: int) -> tuple[int, int]:
    """Make a namespace with a TUN device; returns descriptors of both. The calling thread is in it afterwards."""
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
        with suppress(OSError):  # in a container these may not be writable: then the kernel's defaults hold
            Path("/proc/sys/net/ipv4", setting).write_text(value)
    return own_namespace(), tun


def own_namespace() -> int:
    """The namespace that the calling thread is in, as a descriptor."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def enter(namespace: int) -> None:
    """Move the calling thread, and all that it starts later, into a namespace (setns)."""
    _call("setns", namespace, CLONE_NEWNET)


def move_in(namespaces: Sequence[int], rank: int) -> None:
    """Move this process into the namespace of `rank`, close all descriptors, and tell Gloo the device.

    setns moves the calling thread only: no other thread may run yet.
    """
    enter(namespaces[rank])
    for namespace in namespaces:
        os.close(namespace)
    os.environ["GLOO_SOCKET_IFNAME"] = DEVICE


def _ip_request(name: bytes, ip: str) -> bytes:
    return struct.pack("16sHH4s16x", name, socket.AF_INET, 0, socket.inet_aton(ip))


def _call(function: str, *arguments: int) -> None:
    """Call unshare or setns of the C library; Python has them only since 3.12."""
    if getattr(ctypes.CDLL(None, use_errno=True), function)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), f"{function} failed: {os.strerror(ctypes.get_errno())}")
