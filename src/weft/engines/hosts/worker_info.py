"""Worker info: what each process of a run posts about itself, so that only processes that fit train together."""

import hashlib
import os
import platform
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

import weft
from weft.config.settings import Settings
from weft.core.errors import ConfigError, TransportError
from weft.engines.real.memory_check import Room, available_bytes
from weft.transports.frames import VERSION as FRAME_VERSION

LOOPBACK = "127.0.0.1"
UNSAID = "(not set)"
SHORT = 12
"""Number of hexadecimal digits of a digest in messages."""
LONG = 200
"""Settings with more characters than this are cut, and followed by a digest."""


Number = Annotated[int, Meta(ge=0)]
Words = Annotated[str, Meta(max_length=500, pattern=r"^[^\x00-\x1f\x7f-\x9f]*\Z")]
"""Text that is safe to print: no control characters, hence no terminal escape sequences."""
Process = Annotated[int, Meta(ge=1, le=1 << 22)]
"""A process id; Linux's PID_MAX_LIMIT is 2**22."""


class WorkerInfo(Struct, frozen=True, kw_only=True):
    """One worker process. Processes with the same `home` can share memory and see each other's pids.

    It is read from a rendezvous, where any process may have written it: nothing is trusted beyond what the field types
    and `check_places` enforce.
    """

    rank: Number
    pid: Process
    home: Words
    host: Words
    """The host's name."""
    address: Words
    """The IP address at which other hosts reach this worker."""
    cores: Number
    same: Annotated[dict[Words, Words], Meta(max_length=100)]
    """What must be equal on all workers: settings, and digests of the code."""
    python: Words
    available_bytes: Number
    """Memory that the host has available, as this worker measured it."""


def worker_info(rank: int, address: str, script: Path | None, settings: Settings) -> WorkerInfo:
    """The worker info of this process."""
    return WorkerInfo(
        rank=rank,
        pid=os.getpid(),
        home=home(),
        host=socket.gethostname(),
        address=address,
        cores=len(os.sched_getaffinity(0)),
        same={**code_digests(script), **{name: _words(value) for name, value in asdict(settings).items()}},
        python=platform.python_version(),
        available_bytes=available_bytes(),
    )


def home() -> str:
    """Identifies the kernel boot and this process's network and pid namespaces.

    Processes with equal values can meet at an abstract Unix socket (network namespace), pass descriptors (SCM_RIGHTS)
    and watch each other's end by pidfd (pid namespace).
    """
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return "/".join([boot, *(os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "pid"))])


@cache
def code_digests(script: Path | None) -> Mapping[str, str]:
    """What must be alike on all hosts: Weft's version, sources (SHA-256) and frame format, and `script` (SHA-256)."""
    package = Path(weft.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package)}\0".encode() + path.read_bytes())
    told = {"weft": f"{weft.__version__}, frames {FRAME_VERSION}, code {digest.hexdigest()[:SHORT]}"}
    if script is not None:
        told["script"] = f"'{script.name}', {hashlib.sha256(script.read_bytes()).hexdigest()[:SHORT]}"
    return told


def _words(value: object) -> str:
    """A setting as text, for comparison and messages; a long or unprintable one is cut and followed by its digest."""
    text = UNSAID if value is None else ", ".join(value) if isinstance(value, tuple) else str(value)
    if len(text) <= LONG and text.isprintable():
        return text
    start = text[:LONG].encode("unicode_escape").decode()[:LONG]
    return f"'{start}...', {hashlib.sha256(text.encode()).hexdigest()[:SHORT]}"


def check_places(infos: Sequence[WorkerInfo]) -> None:
    """Refuse infos that the expected worker cannot have posted: with another rank, or without a valid IP address."""
    for rank, each in enumerate(infos):
        try:
            ip_address(each.address)
        except ValueError:
            what = f"the address '{each.address}', which is none"
        else:
            if each.rank == rank:
                continue
            what = f"rank {each.rank}"
        raise TransportError(
            f"the note of worker {rank} says that it has {what}.\n"
            "  Does somebody else write to the store where the run's processes meet?"
        )


def check_alike(infos: Sequence[WorkerInfo]) -> None:
    """Refuse workers whose `same` differs from worker 0's; the error names the key and both values."""
    first = infos[0]
    for other in infos:
        for key in sorted(first.same.keys() | other.same.keys()):
            mine, theirs = first.same.get(key, UNSAID), other.same.get(key, UNSAID)
            if mine != theirs:
                raise ConfigError(
                    f"worker {other.rank} (host {other.host}) has another {key} than worker 0 (host {first.host}):\n"
                    f"  worker 0: {mine}\n  worker {other.rank}: {theirs}\n"
                    "  Give every host the same code, weft.toml and WEFT_ variables."
                )


def host_numbers(infos: Sequence[WorkerInfo]) -> list[int]:
    """The number of each worker's host; hosts are numbered in the order of their lowest ranks."""
    homes = list(dict.fromkeys(each.home for each in infos))
    return [homes.index(each.home) for each in infos]


def rooms(infos: Sequence[WorkerInfo]) -> list[Room]:
    """The memory of each host, in the order of host numbers: the least that any of its workers measured."""
    homes: dict[str, list[WorkerInfo]] = {}
    for each in infos:
        homes.setdefault(each.home, []).append(each)
    return [Room(there[0].host, min(each.available_bytes for each in there)) for there in homes.values()]


def settled(infos: Sequence[WorkerInfo]) -> list[WorkerInfo]:
    """The same workers; if all are on one host, with the loopback address, which other hosts cannot reach."""
    if len({each.home for each in infos}) > 1:
        return list(infos)
    return [replace(each, address=LOOPBACK) for each in infos]


def check_addresses(infos: Sequence[WorkerInfo]) -> None:
    """Refuse a run on several hosts in which a worker's address is a loopback address."""
    if len({each.home for each in infos}) == 1:
        return
    for each in infos:
        if ip_address(each.address).is_loopback:
            raise ConfigError(
                f"host {each.host} (worker {each.rank}) would listen on {each.address}, where other hosts do not "
                "reach it.\n  Set WEFT_INTERFACE there to its interface (such as eth0), or to its address."
            )
