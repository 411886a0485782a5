"""The side of a contender's process: it calls when it is ready, then runs a block whenever it is told to.

A line each way, over a socket of the benchmark: `block REPEATS` is answered by the seconds of one
repetition. Between blocks the process sleeps in a read, so that it costs the other
contenders nothing; the end of the stream is the order to leave.
"""

import json
import socket
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from time import perf_counter

from weft.parent_death import die_with_parent


@dataclass(frozen=True)
class Task:
    """What a process is told when it starts. A launcher such as mpirun decides the rank itself."""

    address: str
    """The path of the benchmark's socket: paths are reached from every network namespace."""
    contender: str
    work: str
    num_processes: int
    rank: int = -1
    store_port: int = 0
    store_fd: int = -1
    """A socket that already listens on `store_port` of loopback, inherited by rank 0."""

    def text(self) -> str:
        """One argument of a command line."""
        return json.dumps(asdict(self), separators=(",", ":"))


def own_task() -> Task:
    """The task of this process, which ends with its launcher, too."""
    die_with_parent()
    return Task(**json.loads(sys.argv[1]))


def serve(task: Task, repeat: Callable[[], object]) -> None:
    """Run blocks of `repeat` until the benchmark has enough."""
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect(task.address)
        orders, answers = stream.makefile("r"), stream.makefile("w")
        for order in orders:
            repeats = int(order.removeprefix("block "))
            start = perf_counter()
            for _ in range(repeats):
                repeat()
            print((perf_counter() - start) / repeats, file=answers, flush=True)
