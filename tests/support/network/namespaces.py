"""Sockets in other network namespaces, and who is still in one."""

import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
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


def namespace_of(pid: int) -> Path:
    """Where the kernel shows the network namespace that a process is in."""
    return Path(f"/proc/{pid}/ns/net")


def is_elsewhere(pid: int) -> bool:
    """Whether a process is in another network namespace than this one."""
    return os.readlink(namespace_of(pid)) != os.readlink(namespace_of(os.getpid()))


@contextmanager
def pinned(places: Iterable[Path]) -> Iterator[dict[str, int]]:
    """Namespaces by name, each with a descriptor that is open here meanwhile: the kernel gives the name of one that is
    gone to the next, which may be that of a test beside this one."""
    found: dict[str, int] = {}
    with ExitStack() as open_here:
        for place in places:
            name = os.readlink(place)
            if name not in found:
                found[name] = os.open(place, os.O_RDONLY)
                open_here.callback(os.close, found[name])
        yield found


def held(pinned: Mapping[str, int]) -> set[str]:
    """Those that some process is in or holds by a descriptor other than the pinned one."""
    ours = {f"/proc/{os.getpid()}/fd/{descriptor}" for descriptor in pinned.values()}
    found = set()
    for place in [*Path("/proc").glob("[0-9]*/ns/net"), *Path("/proc").glob("[0-9]*/fd/*")]:
        with suppress(OSError):  # it has ended meanwhile
            if str(place) not in ours:
                found.add(os.readlink(place))
    return found & pinned.keys()
