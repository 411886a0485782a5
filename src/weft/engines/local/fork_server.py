"""The fork server: imports the script's heavy libraries once, and forks workers whenever the launcher orders it.

Started by the launcher as `python -m weft.engines.local.fork_server SOCKET LAUNCHER`. Every worker is a grandchild:
its parent ends at once, and the launcher, as subreaper (PR_SET_CHILD_SUBREAPER), becomes its parent. So workers are the
launcher's own children, and the fork server may serve several runs. The fork server, not the worker, reports each fork:
a worker may be killed before it can send anything, or the kernel may refuse the fork.

| process      | does                                         | ends                                                  |
|--------------|----------------------------------------------|-------------------------------------------------------|
| fork server  | forks, reads the pid from a pipe, waits      | with the launcher (PR_SET_PDEATHSIG)                  |
| intermediate | forks the worker, writes its pid to the pipe | at once, so that the launcher adopts the worker       |
| worker       | waits until getppid() is the launcher's pid  | if launcher (pidfd) or channel (POLLHUP) end first    |
"""

import ast
import errno
import gc
import importlib
import os
import select
import socket
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from weft.engines.real.exit_status import how_it_ended
from weft.engines.real.fd_passing import receive_fds
from weft.parent_death import die_with_parent

HEAVY = frozenset({"numpy", "torch", "scipy", "sklearn", "pandas", "matplotlib", "torchvision", "transformers"})
"""Libraries worth importing once: importing them is slow, and starts no threads, which would not survive a fork."""

FOLLOW_UPS = {"torch": ("torch._dynamo", "weft.adapters.torch.join"), "numpy": ("weft.adapters.arrays",)}
"""Modules that are imported later by scripts that import a library: torch's first optimizer imports its compiler."""

ADOPTED_MS = 1
"""How often a worker checks whether the launcher has become its parent, or has ended."""
FORKED = struct.Struct("<ii")
"""What the intermediate process writes to the fork server: the worker's pid, and the errno of a fork that failed."""
OWN_FDS = 3
"""Descriptors of each worker: its channel to the launcher, standard output and standard error."""


class ForkOrder(msgspec.Struct, frozen=True, kw_only=True):
    """How many workers to fork; descriptors come with the order: shared ones, then each worker's own."""

    number: int = 0
    """Number of the order, repeated in reports: late reports of an order that was given up are recognised by it."""
    num_workers: int


class Forked(msgspec.Struct, frozen=True):
    """To the launcher, once per worker: its pid, by now a child of the launcher; or the `problem` if fork failed."""

    order: int
    rank: int
    pid: int
    problem: str = ""


def heavy_imports(script: Path) -> list[str]:
    """The modules slow to import (HEAVY) that a script imports at its top level, found in its syntax tree."""
    try:
        tree = ast.parse(script.read_bytes())
    except (SyntaxError, ValueError):  # the workers will raise the same error, with a traceback
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
    """Import the heavy modules, then serve fork orders until the launcher closes the socket."""
    launcher = int(sys.argv[2])
    die_with_parent(launcher)
    end = socket.socket(fileno=int(sys.argv[1]))
    from weft.engines.local import worker_main

    import_ahead(sys.argv[3:])
    lifeline = os.pidfd_open(launcher)
    while (received := receive_fds(end)) is not None:
        order, fds = msgspec.json.decode(received[0], type=ForkOrder), received[1]
        num_own = OWN_FDS * order.num_workers
        shared, own = fds[:-num_own], fds[-num_own:]
        for rank in range(order.num_workers):
            mine = own[OWN_FDS * rank : OWN_FDS * (rank + 1)]
            forked = fork_worker(order.number, rank)
            if forked is None:
                end.close()
                _settle(mine, [fd for fd in own if fd not in mine], launcher, lifeline)
                worker_main.main(mine[0], shared)
                return
            end.send(msgspec.json.encode(forked))
            if forked.problem:
                break
        for fd in fds:
            os.close(fd)


def import_ahead(names: Sequence[str]) -> None:
    """Import modules for all workers, without the garbage collector: it would take a fifth of the time, to find little.

    What has been imported is frozen: the collector would write to objects' headers, and so unshare their copy-on-write
    pages.
    """
    gc.disable()
    for name in names:
        with suppress(Exception):  # the worker that imports it will raise the same error, with a traceback
            importlib.import_module(name)
    gc.freeze()
    gc.enable()


def fork_worker(order: int, rank: int) -> Forked | None:
    """Fork twice. Returns None in the grandchild, the worker; in the fork server, the report for the launcher."""
    readable, writable = os.pipe()
    fork_server = os.getpid()
    try:
        between = os.fork()
    except OSError as error:
        os.close(readable)
        os.close(writable)
        return Forked(order, rank, 0, _refused(error.errno or 0))
    if not between:
        os.close(readable)
        die_with_parent(fork_server)
        _fork_and_tell(writable)
        os.close(writable)
        return None
    os.close(writable)
    told = os.read(readable, FORKED.size)
    os.close(readable)
    _, status = os.waitpid(between, 0)
    if len(told) < FORKED.size:
        how = how_it_ended(os.waitstatus_to_exitcode(status))
        return Forked(order, rank, 0, f"the process that forks it (pid {between}): {how}")
    pid, error_number = FORKED.unpack(told)
    return Forked(order, rank, pid, _refused(error_number) if error_number else "")


def _fork_and_tell(writable: int) -> None:
    """In the intermediate process: fork the worker, write its pid to `writable`, exit. Returns in the worker only."""
    try:
        pid, error_number = os.fork(), 0
    except OSError as error:
        pid, error_number = -1, error.errno or errno.EAGAIN
    if pid:
        os.write(writable, FORKED.pack(max(pid, 0), error_number))
        os._exit(0)


def _refused(error_number: int) -> str:
    return f"the kernel refused to fork it ({os.strerror(error_number)})"


def _settle(mine: list[int], others: list[int], launcher: int, lifeline: int) -> None:
    """In a new worker: start a session, redirect output to its pipes, and wait until the launcher is the parent.

    Exits if the launcher (whose pidfd is `lifeline`) ends before that, or gives the order up and closes the channel.
    """
    os.setsid()
    os.dup2(mine[1], 1)
    os.dup2(mine[2], 2)
    for descriptor in (mine[1], mine[2], *others):
        os.close(descriptor)
    gone = select.poll()
    gone.register(lifeline, select.POLLIN)
    gone.register(mine[0], 0)  # POLLHUP is reported even with an empty event mask
    while os.getppid() != launcher:  # the intermediate process is about to end
        if gone.poll(ADOPTED_MS):
            os._exit(1)
    os.close(lifeline)
    die_with_parent(launcher)


if __name__ == "__main__":
    main()
