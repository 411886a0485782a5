"""Kills and stops processes of runs in all moments, by seed, and looks how the runs end: `make soak`.

Bars: a run ends within 10 s of the fault, with an error that names the victim; 2 s later nothing of it is left: no
process, no shared memory, no socket. Prints a line for each fault that missed a bar, and a table; exit code 1 then.
A fault is tried again by its seed, kind and number: `--seed 0 --only kill:17`.
"""

import argparse
import json
import os
import re
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from faults import FORK_SERVER, GROUNDS, HOSTS, KILL, LAUNCHER, MOMENTS, SHM, STOP, TCP, TORCHRUN, WORKER, Fault, fault
from support.processes.launches import lives
from support.processes.real import fork_from_here

from weft.core.errors import WeftError
from weft.engines.local.launcher import run_local
from weft.engines.real.job import RealJob, spread
from weft.engines.real.observer import Observer
from weft.engines.real.stopped_processes import children_of

MARK = "SOAK_MARK"
HANG_S = 10.0
LEFT_S = 2.0
START_S_MAX = 90.0
"""How long a run may take until its fault comes."""
LOOK_S = 0.002
SCRIPT = Path(__file__).with_name("faulty_script.py")
SIGNALS = {KILL: signal.SIGKILL, STOP: signal.SIGSTOP}
LISTEN = "0A"
UNACCEPTED = "socket:[0]"
"""The other end of a connection that nobody has accepted yet is no process's own."""
TOO_LATE = "the run ended well"
TRIES_MAX = 5
TEXT_MAX = 1500
"""Characters of what a run wrote that are shown if it missed a bar."""


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
    ran, before = Ran(wanted), sockets() | shared_files()
    written, struck = folder / "written", folder / "struck"
    for path in (written, struck):
        path.unlink(missing_ok=True)
    launcher = os.fork()
    if not launcher:
        code = 1
        try:
            _become_launcher(folder, written)
            code = launch(wanted)
            sys.stdout.flush()
        finally:
            os._exit(code)
    code, victim = _await_end(ran, launcher, struck)
    time_left = time.monotonic() + LEFT_S
    while (left := marked()) and time.monotonic() < time_left:
        select.select([], [], [], LOOK_S)
    if left:
        ran.missed.append(f"{len(left)} processes are left")
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    strays = sockets() | shared_files()
    while (strays := {name for name in strays - before if not is_others(name)}) and time.monotonic() < time_left:
        select.select([], [], [], LOOK_S)
    if strays:
        ran.missed.append(f"left: {', '.join(sorted(strays))}")
    ran.text = written.read_text(errors="replace")
    if victim and wanted.victim != LAUNCHER:
        ran.missed += [TOO_LATE] if code == 0 else faults_of(wanted, victim, ran.text)
    return ran


def _become_launcher(folder: Path, written: Path) -> None:
    os.setsid()
    descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    os.chdir(folder)


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
        found = [pid for pid in parents if str(SCRIPT).encode() in _read(pid, "cmdline")]
    else:
        fork_servers = [pid for pid in parents if b"weft.engines.local.fork_server" in _read(pid, "cmdline")][:1]
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


def _read(pid: int, what: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except OSError:
        return b""


def marked() -> set[int]:
    """All processes of the run; this one has the mark, too."""
    mark = os.environ[MARK].encode()
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return {pid for pid in pids if pid != os.getpid() and mark in _read(pid, "environ") and lives(pid)}


def sockets() -> set[str]:
    """Ports that are listened at, and places where host agents are met, by the kernel's numbers of their sockets."""
    found = set()
    for name in ("tcp", "tcp6"):
        rows = [row.split() for row in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
        found |= {f"socket:[{row[9]}]" for row in rows if row[3] == LISTEN}
    rows = [row.split() for row in Path("/proc/net/unix").read_text().splitlines() if "@weft/" in row]
    return found | {f"socket:[{row[6]}]" for row in rows} - {UNACCEPTED}


def shared_files() -> set[str]:
    """Named shared memory, of which Weft has none."""
    return {f"/dev/shm/{name}" for name in os.listdir("/dev/shm")}


def is_others(name: str) -> bool:
    """Whether a process that is no part of the run has this socket or file, or whether it is gone meanwhile."""
    mark = os.environ[MARK].encode()
    for pid in (int(each) for each in os.listdir("/proc") if each.isdigit()):
        if mark not in (environ := _read(pid, "environ")) and environ and _has(pid, name):
            return True
    return name not in sockets() | shared_files()


def _has(pid: int, name: str) -> bool:
    with suppress(OSError):
        for each in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{each}") == name:
                    return True
    return name.encode() in _read(pid, "maps")


def table(title: str, ran: list[Ran]) -> str:
    """How many faults were survived in which moment of which ground, of how many, and the longest time."""
    lines = [f"{title:12s}" + "".join(f"{ground:>18s}" for ground in GROUNDS)]
    for moment in MOMENTS:
        cells = [[one for one in ran if (one.fault.moment, one.fault.ground) == (moment, ground)] for ground in GROUNDS]
        lines.append(f"{moment:12s}" + "".join(f"{_cell(cell):>18s}" for cell in cells))
    return "\n".join(lines)


def _cell(ran: list[Ran]) -> str:
    if not ran:
        return "-"
    return f"{sum(not one.missed for one in ran)}/{len(ran)} {max(one.took_s for one in ran):.1f} s"


def main() -> int:
    """All faults; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--stops", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lanes", type=int, default=2, help="how many runs go on at the same time")
    parser.add_argument("--only", help="one fault, such as kill:17, with all that its run wrote")
    asked = parser.parse_args()
    if MARK in os.environ:
        return soak(asked.seed, asked.only.split(","))
    wanted = asked.only.split(",") if asked.only else []
    wanted = wanted or [f"{KILL}:{n}" for n in range(asked.kills)] + [f"{STOP}:{n}" for n in range(asked.stops)]
    Random(asked.seed).shuffle(wanted)  # or one lane would have all runs of a kind
    lanes = [wanted[lane :: asked.lanes] for lane in range(asked.lanes)]
    started = [_start_lane(asked.seed, lane) for lane in lanes if lane]
    with ThreadPoolExecutor(asked.lanes) as threads:
        heard = threads.map(lambda lane: list(_heard(lane, asked.seed, whole=bool(asked.only))), started)
    ran = [one for lane in heard for one in lane]
    for kind in (KILL, STOP):
        print(f"\n{table(f'{kind}s', [one for one in ran if one.fault.kind == kind])}")
    missed = [one for one in ran if one.missed]
    print(f"\n{len(ran)} of {len(wanted)} faults, bars missed: {len(missed) or 'none'}")
    for one in missed:
        print(f"  --seed {asked.seed} --only {one.fault.kind}:{one.fault.number}  {one.fault}: {', '.join(one.missed)}")
    return 1 if missed or len(ran) < len(wanted) else 0


def _start_lane(seed: int, wanted: list[str]) -> "subprocess.Popen[str]":
    """This program once more, for some of the faults, with a mark by which everything that it starts is found."""
    command = [sys.executable, __file__, "--seed", str(seed), "--only", ",".join(wanted)]
    marked = {**os.environ, MARK: secrets.token_hex(8)}
    return subprocess.Popen(command, env=marked, stdout=subprocess.PIPE, text=True)


def _heard(lane: "subprocess.Popen[str]", seed: int, *, whole: bool) -> Iterator[Ran]:
    """What a lane tells of its faults, one by one; shown as it comes."""
    assert lane.stdout is not None
    with lane:
        for line in lane.stdout:
            kind, number, took_s, missed, text = json.loads(line)
            ran = Ran(fault(seed, kind, number), took_s, missed, text)
            print(f"{ran.fault}: {took_s:.2f} s  {', '.join(missed) or 'ok'}", flush=True)
            if whole or missed:
                print(text if whole else text[-TEXT_MAX:], flush=True)
            yield ran


def soak(seed: int, wanted: list[str]) -> int:
    """One lane: these faults, one after the other, each told in a line."""
    import torch.optim  # for all runs at once: they are forked from this process

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for kind, _, number in (each.partition(":") for each in wanted):
            ran = tried(fault(seed, kind, int(number)), Path(folder))
            print(json.dumps([kind, int(number), ran.took_s, ran.missed, ran.text]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
