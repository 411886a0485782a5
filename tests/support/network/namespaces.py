"""Sockets in other network namespaces, and who is still in one."""

import os
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from weft.engines.netem.namespaces import address, enter

T = TypeVar("T")


def inside(namespace: int, do: Callable[[], T]) -> T:
    """What a function gives in a namespace; only a thread of its own is there."""

    def there() -> T:
        enter(namespace)
        return do()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(there).result()


def pair(namespaces: list[int]) -> tuple[socket.socket, socket.socket]:
    """A TCP connection from worker 0 to worker 1."""
    with inside(namespaces[1], lambda: socket.create_server((address(1), 0))) as listener:
        port = listener.getsockname()[1]
        caller = inside(namespaces[0], lambda: socket.create_connection((address(1), port), timeout=10))
        answerer, _ = listener.accept()
    answerer.settimeout(10)
    for end in (caller, answerer):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return caller, answerer


def namespaces_of(pids: set[int]) -> set[str]:
    """The network namespaces that these processes are in, other than our own."""
    return {os.readlink(f"/proc/{pid}/ns/net") for pid in pids} - {os.readlink("/proc/self/ns/net")}


def held(namespaces: set[str]) -> set[str]:
    """Those that some process is in or holds by a descriptor."""
    found = set()
    for place in [*Path("/proc").glob("[0-9]*/ns/net"), *Path("/proc").glob("[0-9]*/fd/*")]:
        with suppress(OSError):  # it has ended meanwhile
            found.add(os.readlink(place))
    return namespaces & found
