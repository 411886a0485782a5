"""What a run has left behind: processes, listening sockets and named shared memory, looked for in /proc."""

import os
import select
import signal
import time
from contextlib import suppress
from pathlib import Path

from support.processes.launches import lives

MARK = "SOAK_MARK"
"""In the environment of all processes of a lane."""
LEFT_S = 2.0
"""How long after its end something of a run may be left."""
LOOK_S = 0.002
LISTEN = "0A"
UNACCEPTED = "socket:[0]"
"""The other end of a connection that nobody has accepted yet is no process's own."""


def traces() -> set[str]:
    """What there is on this machine now of what a run might leave, but for processes."""
    return _sockets() | _shared_files()


def leftovers(before: set[str]) -> list[str]:
    """In words, what is left of a run LEFT_S after its end; `before` are the traces before its start.

    Processes that are left are killed.
    """
    missed, time_left = [], time.monotonic() + LEFT_S
    while (left := marked()) and time.monotonic() < time_left:
        select.select([], [], [], LOOK_S)
    if left:
        missed.append(f"{len(left)} processes are left")
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    strays = traces()
    while (strays := {name for name in strays - before if not _is_others(name)}) and time.monotonic() < time_left:
        select.select([], [], [], LOOK_S)
    if strays:
        missed.append(f"left: {', '.join(sorted(strays))}")
    return missed


def marked() -> set[int]:
    """All living processes of the lane but this one."""
    mark = os.environ[MARK].encode()
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return {pid for pid in pids if pid != os.getpid() and mark in read_of(pid, "environ") and lives(pid)}


def read_of(pid: int, what: str) -> bytes:
    """A file of a process in /proc; nothing if that is gone."""
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except OSError:
        return b""


def _sockets() -> set[str]:
    """Ports that are listened at, and places where host agents are met, by the kernel's numbers of their sockets."""
    found = set()
    for name in ("tcp", "tcp6"):
        rows = [row.split() for row in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
        found |= {f"socket:[{row[9]}]" for row in rows if row[3] == LISTEN}
    rows = [row.split() for row in Path("/proc/net/unix").read_text().splitlines() if "@weft/" in row]
    return found | {f"socket:[{row[6]}]" for row in rows} - {UNACCEPTED}


def _shared_files() -> set[str]:
    """Named shared memory, of which Weft has none. It is always a file: folders there are of other programs."""
    return {str(path) for path in Path("/dev/shm").iterdir() if not path.is_dir()}


def _is_others(name: str) -> bool:
    """Whether a process that is no part of the run has this socket or file, or whether it is gone meanwhile."""
    mark = os.environ[MARK].encode()
    for pid in (int(each) for each in os.listdir("/proc") if each.isdigit()):
        if mark not in (environ := read_of(pid, "environ")) and environ and _has(pid, name):
            return True
    return name not in traces()


def _has(pid: int, name: str) -> bool:
    with suppress(OSError):
        for each in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{each}") == name:
                    return True
    return name.encode() in read_of(pid, "maps")
