"""Contenders: ways of doing the same work, each a group of processes."""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from weft.interpreter import python_module

ROOT = Path(__file__).resolve().parents[2]
"""The folder that Weft is imported from."""

Launcher = Callable[[str, int, str], list[str]]
"""The command that starts all processes of a module: (module, number of processes, task)."""


def can_run() -> str:
    """Nothing is missing."""
    return ""


@dataclass(frozen=True)
class BenchmarkContender:
    """Whom a benchmark lets compete, and how its processes are started."""

    name: str
    module: str
    """What each process runs; it gets its task as its one argument."""
    launcher: Launcher | None = None
    """None: each process is started by itself."""
    is_alone: bool = False
    """One process, however many the work is for: a limit of the machine."""
    rival: str = ""
    """What ratios call it; of several contenders that are one rival, the faster counts."""
    keeps_memory: bool = False
    """Its allocator is set up as that of Weft's workers is."""
    only: tuple[str, ...] = ()
    """The works that it competes in; none: all."""
    missing: Callable[[], str] = can_run
    """Why it cannot run here, or nothing."""

    @property
    def ratio_name(self) -> str:
        return self.rival or self.name


def process(module: str, task: str) -> list[str]:
    """The command of one process."""
    return python_module(module, [task])


def mpirun(module: str, num_processes: int, task: str) -> list[str]:
    """Open MPI as its users start it; oversubscribed, it yields the core while it waits."""
    root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    crowd = ["--oversubscribe"] if num_processes > len(os.sched_getaffinity(0)) else []
    return [str(_mpirun()), *root, *crowd, "-n", str(num_processes), *process(module, task)]


def missing_mpi() -> str:
    """Why Open MPI cannot be compared with."""
    return "" if _mpirun().exists() and find_spec("mpi4py") else "not installed: make bench-peers"


def _mpirun() -> Path:
    return Path(sys.executable).with_name("mpirun")


def weft_run(module: str, num_processes: int, task: str) -> list[str]:
    """Weft as its users start it."""
    return weft_with((), module, num_processes, task)


def mortal_run(module: str, num_processes: int, task: str) -> list[str]:
    """Weft without what lets it go on when a worker is lost."""
    return weft_with(("--on-loss", "stop"), module, num_processes, task)


def weft_with(options: Sequence[str], module: str, num_processes: int, task: str) -> list[str]:
    """Weft with these options of `weft run`."""
    return python_module("weft", ["run", str(script_of(module)), "-n", str(num_processes), *options, "--", task])


def netted_ddp(links: str, module: str, num_processes: int, task: str) -> list[str]:
    """DistributedDataParallel in network namespaces with these links."""
    return python_module("weft.bench.netted_ddp", [str(script_of(module)), str(num_processes), links, task])


def script_of(module: str) -> Path:
    """The file of a module of Weft."""
    return ROOT.joinpath(*module.split(".")).with_suffix(".py")
