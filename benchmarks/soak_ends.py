"""Runs that end when one of their processes is killed or stopped: lets the fault happen, and looks how the run ends.

Bars: a run ends within 10 s of the fault, with an error that names the victim; 2 s later nothing of it is left: no
process, no shared memory, no socket.
"""

import os
import re
import select
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from faults import FORK_SERVER, HOSTS, KILL, LAUNCHER, SHM, STOP, TCP, TORCHRUN, WORKER, Fault
from soak_launch import WRITTEN, start_launcher
from soak_leftovers import LOOK_S, leftovers, read_of, traces
from support.processes.real import fork_from_here

from weft.core.errors import WeftError
from weft.engines.local.launcher import run_local
from weft.engines.real.job import RealJob, spread
from weft.engines.real.observer import Observer
from weft.engines.real.stopped_processes import children_of

HANG_S = 10.0
START_S_MAX = 90.0
"""How long a run may take until its fault comes."""
SCRIPT = Path(__file__).with_name("faulty_script.py")
SIGNALS = {KILL: signal.SIGKILL, STOP: signal.SIGSTOP}
TOO_LATE = "the run ended well"
TRIES_MAX = 5


@dataclass
class Ran:
    """What came of one fault."""

    fault: Fault
    took_s: float = 0.0
    missed: list[str] = field(default_factory=list)
    text: str = ""


def launch(wanted: Fault) -> int:
    """In a process of its own: run the script until it ends; the exit code."""
    number = int(SIGNALS[wanted.kind])
    arguments = [wanted.moment, str(number), str(wanted.rank), wanted.victim, str(wanted.late_s)]
    if wanted.ground == TORCHRUN:
        return _launch_torchrun(wanted, arguments)
    job = RealJob(
        script=SCRIPT,
        arguments=tuple(arguments),
        num_workers=wanted.num_workers,
        strategy=wanted.strategy,
        transport=TCP if wanted.ground == TCP else SHM,
        hosts=spread(wanted.num_workers, 2 if wanted.ground == HOSTS else 1),
    )
    observer = Observer(on_line=lambda rank, text, is_error: print(f"worker {rank} | {text}", flush=True))
    try:
        run_local(job, observer, None if wanted.moment == "birth" else fork_from_here)
    except WeftError as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        return 1
    return 0


def _launch_torchrun(wanted: Fault, arguments: list[str]) -> int:
    from torch.distributed.run import main as torchrun

    os.environ |= {"OMP_NUM_THREADS": "1", "WEFT_STRATEGY": wanted.strategy}
    sys.argv = ["torchrun"]
    try:
        torchrun(["--standalone", "--nproc-per-node", str(wanted.num_workers), str(SCRIPT), *arguments])
    except Exception as error:
        print(error, flush=True)
        return 1
    return 0


def tried(wanted: Fault, folder: Path) -> Ran:
    """The same, until it hits: who kills or stops in the moment of a birth may come when all is done there."""
    for _ in range(TRIES_MAX):
        ran = run(wanted, folder)
        if wanted.moment != "birth" or ran.missed != [TOO_LATE]:
            break
    return ran


def run(wanted: Fault, folder: Path) -> Ran:
    """Let one fault happen, and see how its run ends."""
    ran, before = Ran(wanted), traces()
    written, struck = folder / WRITTEN, folder / "struck"
    for path in (written, struck):
        path.unlink(missing_ok=True)
    launcher = start_launcher(folder, partial(launch, wanted))
    code, victim = _await_end(ran, launcher, struck)
    ran.missed += leftovers(before)
    ran.text = written.read_text(errors="replace")
    if victim and wanted.victim != LAUNCHER:
        ran.missed += [TOO_LATE] if code == 0 else faults_of(wanted, victim, ran.text)
    return ran


def _await_end(ran: Ran, launcher: int, struck: Path) -> tuple[int, int]:
    """Wait until the launcher has ended; its exit code, and the process that the fault was for."""
    began_s, struck_s, victim = time.monotonic(), 0.0, 0
    while True:
        pid, status = os.waitpid(launcher, os.WNOHANG)
        now_s = time.monotonic()
        if not victim:
            struck_s, victim = _strike(ran.fault, launcher) if ran.fault.moment == "birth" else _struck(struck)
        if pid:
            break
        if now_s > (struck_s + HANG_S if victim else began_s + START_S_MAX):
            ran.missed.append(f"hangs for {HANG_S:g} s" if victim else "its fault never came")
            os.kill(launcher, signal.SIGKILL)
            os.waitpid(launcher, 0)
            break
        if ran.fault.moment != "birth" or victim:
            select.select([], [], [], LOOK_S)
    if not victim and not ran.missed:
        ran.missed.append("its fault never came")
    ran.took_s = time.monotonic() - struck_s if victim else 0.0
    return (os.waitstatus_to_exitcode(status) if pid else -1), victim


def _struck(note: Path) -> tuple[float, int]:
    """When the script let the fault happen, and to which process; nothing if it has not yet."""
    if not note.exists():
        return 0.0, 0
    when_s, pid = note.read_text().split()
    return float(when_s), int(pid)


def _strike(wanted: Fault, launcher: int) -> tuple[float, int]:
    """Let the fault happen to the first process that is being born, if there is one."""
    parents = children_of(launcher)
    if wanted.victim == FORK_SERVER:
        found = parents
    elif wanted.ground == TORCHRUN:
        found = [pid for pid in parents if str(SCRIPT).encode() in read_of(pid, "cmdline")]
    else:
        fork_servers = [pid for pid in parents if b"weft.engines.local.fork_server" in read_of(pid, "cmdline")][:1]
        found = [
            *(pid for pid in parents if pid not in fork_servers),
            *(c for n in fork_servers for c in children_of(n)),
        ]
    with suppress(ProcessLookupError):
        for pid in found[:1]:
            os.kill(pid, SIGNALS[wanted.kind])
            return time.monotonic(), pid
    return 0.0, 0


def faults_of(wanted: Fault, victim: int, text: str) -> list[str]:
    """What is wrong with what a run has said."""
    is_named = re.search(rf"pid:? {victim}\b", text, re.IGNORECASE) is not None
    if wanted.victim == WORKER and wanted.ground != TORCHRUN and wanted.moment != "birth":
        is_named = is_named and f"worker {wanted.rank} " in text
    how = r"SIGKILL|signal 9|exitcode\s*:\s*-9" if wanted.kind == KILL else r"is stopped"
    if wanted.victim not in (WORKER, FORK_SERVER) and wanted.kind == KILL:
        is_named, how = True, r"is gone|has hung up|is silent"
    return [] if is_named and re.search(how, text) else ["its victim is not named"]
