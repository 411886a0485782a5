"""The nursery: imports what the script imports, once, and forks all workers; they start as one would.

Started by the launcher as `python -m weft.engines.nursery SOCKET LAUNCHER`. The launcher adopts the
workers when the nursery ends, which it does as soon as they exist: they are the launcher's own children then.
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


class Cradle(msgspec.Struct, frozen=True):
    """The descriptors of one worker: its channel to the launcher, standard output and error."""

    channel: int
    output: int
    error: int


class Order(msgspec.Struct, frozen=True):
    """What the launcher wants of the nursery."""

    cradles: list[Cradle]
    modules: list[str]


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
    return [name for name in dict.fromkeys(names) if name.partition(".")[0] in HEAVY]


def main() -> None:
    """Import, fork, tell the launcher who was born, and end."""
    launcher = int(sys.argv[2])
    die_with_parent(launcher)
    end = socket.socket(fileno=int(sys.argv[1]))
    order = msgspec.json.decode(end.recv(1 << 20), type=Order)
    from weft.engines import worker

    for name in order.modules:
        with suppress(Exception):  # a worker that needs it will say what is wrong
            importlib.import_module(name)
    gc.freeze()  # what is there stays shared between the workers
    nursery, pids = os.getpid(), []
    for cradle in order.cradles:
        pid = os.fork()
        if not pid:
            end.close()
            _settle(cradle, order.cradles, nursery, launcher)
            worker.main(cradle.channel)
            return
        pids.append(pid)
    end.sendall(msgspec.json.encode(pids))
    os._exit(0)


def _settle(mine: Cradle, cradles: list[Cradle], nursery: int, launcher: int) -> None:
    """Become a worker process of the launcher's."""
    os.setsid()
    os.dup2(mine.output, 1)
    os.dup2(mine.error, 2)
    for cradle in cradles:
        for descriptor in (cradle.output, cradle.error, *(() if cradle is mine else (cradle.channel,))):
            os.close(descriptor)
    while os.getppid() == nursery:
        time.sleep(0.001)
    die_with_parent(launcher)


if __name__ == "__main__":
    main()
