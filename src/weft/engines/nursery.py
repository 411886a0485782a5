"""The nursery: imports what the script imports, once, and forks workers whenever it is told to.

Started by the launcher as `python -m weft.engines.nursery SOCKET LAUNCHER`. Every worker is a grandchild:
its parent ends at once, and the launcher adopts it. So workers are the launcher's own children, and the
nursery may serve several runs.
"""

import ast
import gc
import importlib
import os
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from weft.lifeline import die_with_parent

HEAVY = frozenset({"numpy", "torch", "scipy", "sklearn", "pandas", "matplotlib", "torchvision", "transformers"})
"""Libraries that are worth importing once: they are slow to import, and start no threads when they are."""

FOLLOW_UPS = {"torch": ("torch._dynamo", "weft.adapters.torch.join"), "numpy": ("weft.adapters.arrays",)}
"""What a script that imports a library will need besides: torch imports its compiler with the first optimizer."""

FDS_PER_MESSAGE = 200
"""The system takes 253 at most."""
ADOPTED_S_MAX = 30.0
"""How long a worker waits until its launcher is its parent: on a machine that is starved, the one between ends late."""
OWN_FDS = 3
"""Of each worker: its channel to the launcher, standard output and error."""


class Order(msgspec.Struct, frozen=True):
    """How many workers to fork, and how many descriptors come with the order: shared ones, then each worker's own."""

    num_workers: int
    num_fds: int


def heavy_imports(script: Path) -> list[str]:
    """The heavy modules that a script imports at its top, as far as can be told without running it."""
    try:
        tree = ast.parse(script.read_bytes())
    except (SyntaxError, ValueError):  # the workers will say what is wrong with it
        return []
    names: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module)
    heavy = [name for name in dict.fromkeys(names) if name.partition(".")[0] in HEAVY]
    return heavy + [more for name in heavy for more in FOLLOW_UPS.get(name, ())]


def main() -> None:
    """Import, then fork workers until the launcher has enough."""
    launcher = int(sys.argv[2])
    die_with_parent(launcher)
    end = socket.socket(fileno=int(sys.argv[1]))
    from weft.engines import worker

    for name in sys.argv[3:]:
        with suppress(Exception):  # a worker that needs it will say what is wrong
            importlib.import_module(name)
    gc.freeze()  # what is there stays shared between the workers
    while fds := receive_fds(end):
        order = msgspec.json.decode(fds[0], type=Order)
        shared, own = fds[1][: order.num_fds - OWN_FDS * order.num_workers], fds[1][-OWN_FDS * order.num_workers :]
        for rank in range(order.num_workers):
            mine = own[OWN_FDS * rank : OWN_FDS * (rank + 1)]
            if _is_worker():
                _settle(mine, [fd for fd in own if fd not in mine], launcher)
                end.send(msgspec.json.encode((rank, os.getpid())))
                end.close()
                worker.main(mine[0], shared)
                return
        for fd in fds[1]:
            os.close(fd)


def send_fds(end: socket.socket, order: bytes, fds: list[int]) -> None:
    """Hand descriptors over, as many at a time as the system takes."""
    for start in range(0, len(fds), FDS_PER_MESSAGE):
        socket.send_fds(end, [order], fds[start : start + FDS_PER_MESSAGE])


def receive_fds(end: socket.socket) -> tuple[bytes, list[int]] | None:
    """An order with all its descriptors; None at the end."""
    fds: list[int] = []
    while True:
        raw, some, _, _ = socket.recv_fds(end, 1 << 12, FDS_PER_MESSAGE)
        if not raw:
            return None
        fds += some
        if len(fds) == msgspec.json.decode(raw, type=Order).num_fds:
            return raw, fds


def _is_worker() -> bool:
    """Fork twice: True in the grandchild, whose parent is gone; False in the nursery."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return False
    if os.fork():
        os._exit(0)
    return True


def _settle(mine: list[int], others: list[int], launcher: int) -> None:
    """Become a worker process of the launcher's."""
    os.setsid()
    os.dup2(mine[1], 1)
    os.dup2(mine[2], 2)
    for descriptor in (mine[1], mine[2], *others):
        os.close(descriptor)
    deadline = time.monotonic() + ADOPTED_S_MAX
    while os.getppid() != launcher and time.monotonic() < deadline:
        time.sleep(0.001)  # the parent between is about to end
    die_with_parent(launcher)


if __name__ == "__main__":
    main()
