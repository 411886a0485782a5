"""`weft doctor`: checks whether real workers can run on this machine, with one small check for each thing they need.

A check never raises for what it finds: a missing feature is a finding, with what to do about it.
`bad`: real runs will fail. `warn`: they will work, but slower or with less comfort.
"""

import ctypes
import json
import mmap
import os
import platform
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Literal

from weft.engines.real.memory_check import available_bytes
from weft.interpreter import python_code

Verdict = Literal["ok", "warn", "bad"]

MIB, GIB = 2**20, 2**30
MEMORY_MIN_BYTES = GIB // 2
MEMORY_GOOD_BYTES = 2 * GIB
SHM_GOOD_BYTES = 256 * MIB
FILES_MIN, FILES_GOOD = 64, 1024
PROCESSES_MIN, PROCESSES_GOOD = 64, 512
LOAD_GOOD = 0.5
"""Load per core above which other programs are assumed to be busy."""
ROUND_TRIP_GOOD_S = 500e-6
CLOCK_GOOD_S = 1e-6
TORCH_TIMEOUT_S = 8.0
CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")

TORCH_PROBE = """
import json, torch
gloo = torch.distributed.is_available() and torch.distributed.is_gloo_available()
print(json.dumps({"version": torch.__version__, "threads": torch.get_num_threads(), "gloo": gloo}))
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check, and what to do about it unless it is ok."""

    name: str
    verdict: Verdict
    found: str
    fix: str = ""


Check = Callable[[], Finding]


def examine(checks: Iterable[Check]) -> list[Finding]:
    """Run the checks. A check that raises becomes a bad finding."""
    return [_found(check) for check in checks]


def _found(check: Check) -> Finding:
    try:
        return check()
    except Exception as error:  # the other checks must still run
        name = check.__name__.removeprefix("check_").replace("_", " ")
        return Finding(name, "bad", f"could not be checked: {type(error).__name__}: {error}", "Is this Linux?")


def check_python() -> Finding:
    name, found = "python", f"{platform.python_version()} ({platform.python_implementation()}, {platform.system()})"
    if platform.system() != "Linux":
        return Finding(name, "bad", found, "Real workers need Linux; weft simulate runs anywhere.")
    return Finding(name, "ok", found)


def check_cores() -> Finding:
    name, cores, load = "cores", usable_cores(), os.getloadavg()[0]
    found = f"{cores:g} usable of {os.cpu_count()}, load {load:.1f}"
    if load > LOAD_GOOD * cores:
        return Finding(name, "warn", found, "Other programs are busy: runs will be slower and figures noisy.")
    if cores < 2:
        return Finding(name, "warn", found, "Workers will take turns: more of them will not be faster.")
    return Finding(name, "ok", found)


def usable_cores() -> float:
    """The cores that this process may run on (sched_getaffinity), or its cgroup's cpu.max, if that is less."""
    cores = float(len(os.sched_getaffinity(0)))
    if CPU_QUOTA.exists() and not (quota := CPU_QUOTA.read_text()).startswith("max"):
        allowed, period = map(int, quota.split())
        cores = min(cores, allowed / period)
    return cores


def check_memory() -> Finding:
    free, total = available_bytes(), os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    found = f"{free / GIB:.1f} GiB available of {total / GIB:.1f} GiB (limits of a container counted)"
    if free < MEMORY_MIN_BYTES:
        return Finding("memory", "bad", found, "A torch worker needs about 0.3 GiB: free some, or raise the limit.")
    if free < MEMORY_GOOD_BYTES:
        return Finding("memory", "warn", found, "A torch worker needs about 0.3 GiB: use few workers.")
    return Finding("memory", "ok", found)


def check_shared_memory() -> Finding:
    """Whether two mappings of one memfd see each other's writes, as the arena needs."""
    name = "shared memory"
    fix = "Real workers share memory by memfd_create: use Linux 3.17 or newer, and a container that allows it."
    if not hasattr(os, "memfd_create"):
        return Finding(name, "bad", "this Python has no os.memfd_create", fix)
    try:
        file = os.memfd_create("weft-doctor")
        try:
            os.ftruncate(file, mmap.PAGESIZE)
            with mmap.mmap(file, mmap.PAGESIZE) as one, mmap.mmap(file, mmap.PAGESIZE) as other:
                one[:4] = b"weft"
                is_shared = other[:4] == b"weft"
        finally:
            os.close(file)
    except OSError as error:
        return Finding(name, "bad", f"memfd_create or mmap failed: {error}", fix)
    if not is_shared:
        return Finding(name, "bad", "two mappings of one file do not see each other's writes", fix)
    return Finding(name, "ok", "memfd_create and mmap work")


def check_shm_folder() -> Finding:
    """Checks the free space of /dev/shm: Weft does not use it, but DataLoaders with worker processes do."""
    name, fix = "/dev/shm", "DataLoader(num_workers=1 or more) needs it; in Docker: --shm-size 1g."
    if not Path("/dev/shm").is_dir():
        return Finding(name, "warn", "missing", fix)
    free = shutil.disk_usage("/dev/shm").free
    if free < SHM_GOOD_BYTES:
        return Finding(name, "warn", f"{free / MIB:.0f} MiB free", fix)
    return Finding(name, "ok", f"{free / GIB:.1f} GiB free")


def check_eventfd() -> Finding:
    name, fix = "eventfd", "Workers wake each other by it: use Linux, and a container that allows it."
    if not hasattr(os, "eventfd"):
        return Finding(name, "bad", "this Python has no os.eventfd", fix)
    try:
        event = os.eventfd(0)
    except OSError as error:
        return Finding(name, "bad", f"refused: {error}", fix)
    try:
        os.eventfd_write(event, 3)
        told = os.eventfd_read(event)
    finally:
        os.close(event)
    return Finding(name, "ok", "works") if told == 3 else Finding(name, "bad", f"3 was written, {told} was read", fix)


def check_pidfd() -> Finding:
    name, fix = "pidfd_open", "The launcher notices a dead worker by it: use Linux 5.3 or newer."
    if not hasattr(os, "pidfd_open"):
        return Finding(name, "bad", "this Python has no os.pidfd_open", fix)
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        return Finding(name, "bad", f"refused: {error}", fix)
    return Finding(name, "ok", "works")


def check_parent_death_signal() -> Finding:
    """Checks prctl(PR_SET_PDEATHSIG) by setting the value that it has already, so that nothing changes."""
    name, fix = "parent death", "Without prctl(PR_SET_PDEATHSIG) a killed launcher leaves its workers behind."
    set_signal, get_signal = 1, 2
    prctl = getattr(ctypes.CDLL(None, use_errno=True), "prctl", None)
    if prctl is None:
        return Finding(name, "bad", "the C library has no prctl", fix)
    signal = ctypes.c_int()
    if prctl(get_signal, ctypes.byref(signal)) != 0 or prctl(set_signal, signal.value) != 0:
        return Finding(name, "bad", f"prctl was refused: {os.strerror(ctypes.get_errno())}", fix)
    return Finding(name, "ok", "workers end when the launcher does")


def check_pagemap() -> Finding:
    name = "pagemap"
    try:
        with open("/proc/self/pagemap", "rb", buffering=0) as pages:
            is_whole = len(pages.read(8)) == 8
    except OSError as error:
        is_whole, why = False, str(error)
    else:
        why = "too short"
    if is_whole:
        return Finding(name, "ok", "/proc/self/pagemap is readable")
    fix = "Weft cannot see which shared pages a script wrote to, and copies more than it needs."
    return Finding(name, "warn", f"/proc/self/pagemap is not readable: {why}", fix)


def check_loopback() -> Finding:
    """Binds a port on loopback, connects to it, and measures round trips."""
    name = "loopback"
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname(), timeout=2.0) as near,
            server.accept()[0] as far,
        ):
            for end in (near, far):
                end.settimeout(2.0)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            round_trip_s = median(_round_trip_s(near, far) for _ in range(200))
    except OSError as error:
        fix = "Workers meet on a port of 127.0.0.1: allow it in the container or the firewall."
        return Finding(name, "bad", f"127.0.0.1 cannot be used: {error}", fix)
    found = f"a port can be bound and reached; {round_trip_s * 1e6:.0f} us there and back"
    if round_trip_s > ROUND_TRIP_GOOD_S:
        return Finding(name, "warn", found, "That is slow: a busy machine, or a container that filters packets.")
    return Finding(name, "ok", found)


def _round_trip_s(near: socket.socket, far: socket.socket) -> float:
    began_s = time.perf_counter()
    for source, target in ((near, far), (far, near)):
        source.sendall(bytes(64))
        target.recv(64, socket.MSG_WAITALL)
    return time.perf_counter() - began_s


def check_open_files() -> Finding:
    return _limit("open files", "RLIMIT_NOFILE", FILES_MIN, FILES_GOOD, "ulimit -n 4096")


def check_processes() -> Finding:
    return _limit("processes", "RLIMIT_NPROC", PROCESSES_MIN, PROCESSES_GOOD, "ulimit -u 4096")


def _limit(name: str, resource_name: str, least: int, good: int, command: str) -> Finding:
    import resource  # not on every system

    soft, hard = resource.getrlimit(getattr(resource, resource_name))
    if soft == resource.RLIM_INFINITY:
        return Finding(name, "ok", "no limit")
    found = f"at most {soft:,}" + ("" if hard in (soft, resource.RLIM_INFINITY) else f" (can be raised to {hard:,})")
    if soft >= good:
        return Finding(name, "ok", found)
    return Finding(name, "warn" if soft >= least else "bad", found, f"Raise it: {command}")


def check_torch() -> Finding:
    """Imports torch in a process of its own: a crash there does not end `weft doctor`."""
    name, fix = "torch", "Install it again: pip install 'weft[torch]'."
    if _version("torch") is None:
        return Finding(name, "warn", "not installed", "For torch scripts: pip install 'weft[torch]'.")
    try:
        probe = subprocess.run(
            python_code(TORCH_PROBE), capture_output=True, text=True, timeout=TORCH_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        fix = "Slow disk or a busy machine? Every worker will take as long to start."
        return Finding(name, "warn", f"importing it took more than {TORCH_TIMEOUT_S:.0f} s", fix)
    if probe.returncode != 0:
        why = (probe.stderr.strip().splitlines() or [f"exit code {probe.returncode}"])[-1]
        return Finding(name, "bad", f"cannot be imported: {why}", fix)
    told = json.loads(probe.stdout)
    found = f"{told['version']}, {told['threads']} threads, Gloo {'available' if told['gloo'] else 'missing'}"
    if not told["gloo"]:
        return Finding(name, "warn", found, "Comparisons with DistributedDataParallel need a torch built with Gloo.")
    return Finding(name, "ok", found)


def check_threads() -> Finding:
    name, asked = "OMP_NUM_THREADS", os.environ.get("OMP_NUM_THREADS")
    if asked is None:
        return Finding(name, "ok", "not set; weft run gives each worker one thread")
    if not asked.isdigit() or int(asked) < 1:
        return Finding(name, "warn", f"'{asked}' is not a number of threads", "unset OMP_NUM_THREADS")
    if int(asked) > 1:
        return Finding(name, "warn", asked, "Workers times threads should not exceed the cores: unset OMP_NUM_THREADS")
    return Finding(name, "ok", asked)


def check_clock() -> Finding:
    reads = 1000
    began_s = time.perf_counter()
    for _ in range(reads):
        time.monotonic()
    cost_s = (time.perf_counter() - began_s) / reads
    found = f"{cost_s * 1e9:.0f} ns to read, resolution {time.get_clock_info('monotonic').resolution * 1e9:.0f} ns"
    if cost_s > CLOCK_GOOD_S:
        return Finding("clock", "warn", found, "Slow: is the kernel's clock source something else than tsc?")
    return Finding("clock", "ok", found)


def check_mpi() -> Finding:
    """Checks mpi4py, which only benchmarks need."""
    beside = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
    found, mpiexec = _version("mpi4py"), shutil.which("mpiexec", path=beside)
    if found is None:
        return Finding("mpi4py", "ok", "not installed; only benchmarks compare with it (make bench-peers)")
    if mpiexec is None:
        return Finding("mpi4py", "warn", f"{found}, but there is no mpiexec", "make bench-peers")
    return Finding("mpi4py", "ok", f"{found}, {mpiexec}")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


CHECKS: tuple[Check, ...] = (
    check_python,
    check_cores,
    check_memory,
    check_shared_memory,
    check_shm_folder,
    check_eventfd,
    check_pidfd,
    check_parent_death_signal,
    check_pagemap,
    check_loopback,
    check_open_files,
    check_processes,
    check_torch,
    check_threads,
    check_clock,
    check_mpi,
)
