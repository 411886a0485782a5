"""Who is there: what each process of a run tells the others of itself, so that only those who fit train together."""

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
"""Digits of a digest that people look at."""
LONG = 200
"""Settings with more characters are not shown whole."""


Number = Annotated[int, Meta(ge=0)]
Words = Annotated[str, Meta(max_length=500, pattern=r"^[^\x00-\x1f\x7f-\x9f]*\Z")]
"""For a screen: nothing that steers it."""
Process = Annotated[int, Meta(ge=1, le=1 << 22)]
"""The system's number of one."""


class WorkerInfo(Struct, frozen=True, kw_only=True):
    """One worker process. Processes whose `home` is the same share their memory and see each other's ids.

    It comes over a rendezvous, from whoever can write there: no more is believed than its type and `check_places` hold.
    """

    rank: Number
    pid: Process
    home: Words
    host: Words
    """The name of its host."""
    address: Words
    """Where other hosts reach it."""
    cores: Number
    same: Annotated[dict[Words, Words], Meta(max_length=100)]
    """What must be the same for all: settings, and digests of code."""
    python: Words
    available_bytes: Number
    """What its host can still give."""


def worker_info(rank: int, address: str, script: Path | None, settings: Settings) -> WorkerInfo:
    """That of this process."""
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
    """The same for two processes that can hand each other descriptors and watch each other end."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return "/".join([boot, *(os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "pid"))])


@cache
def code_digests(script: Path | None) -> Mapping[str, str]:
    """What the code of Weft, of its frames and of a script is told by."""
    package = Path(weft.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package)}\0".encode() + path.read_bytes())
    told = {"weft": f"{weft.__version__}, frames {FRAME_VERSION}, code {digest.hexdigest()[:SHORT]}"}
    if script is not None:
        told["script"] = f"'{script.name}', {hashlib.sha256(script.read_bytes()).hexdigest()[:SHORT]}"
    return told


def _words(value: object) -> str:
    """A setting as it is compared and shown; a long one by its digest."""
    text = UNSAID if value is None else ", ".join(value) if isinstance(value, tuple) else str(value)
    if len(text) <= LONG and text.isprintable():
        return text
    start = text[:LONG].encode("unicode_escape").decode()[:LONG]
    return f"'{start}...', {hashlib.sha256(text.encode()).hexdigest()[:SHORT]}"


def check_places(infos: Sequence[WorkerInfo]) -> None:
    """Refuse notes that cannot be of who should have left them: another rank's, or without an address."""
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
    """Refuse processes that differ from worker 0 in what must be the same; says what, and both values."""
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
    """The number of each worker's host, counted in order of their first workers."""
    homes = list(dict.fromkeys(each.home for each in infos))
    return [homes.index(each.home) for each in infos]


def rooms(infos: Sequence[WorkerInfo]) -> list[Room]:
    """What each host can give, in the order of their numbers: the least that its workers have found."""
    homes: dict[str, list[WorkerInfo]] = {}
    for each in infos:
        homes.setdefault(each.home, []).append(each)
    return [Room(there[0].host, min(each.available_bytes for each in there)) for there in homes.values()]


def settled(infos: Sequence[WorkerInfo]) -> list[WorkerInfo]:
    """The same workers; if all are on one host, where nobody else reaches them."""
    if len({each.home for each in infos}) > 1:
        return list(infos)
    return [replace(each, address=LOOPBACK) for each in infos]


def check_addresses(infos: Sequence[WorkerInfo]) -> None:
    """Refuse several hosts of which one is known by an address that only itself can reach."""
    if len({each.home for each in infos}) == 1:
        return
    for each in infos:
        if ip_address(each.address).is_loopback:
            raise ConfigError(
                f"host {each.host} (worker {each.rank}) would listen on {each.address}, where other hosts do not "
                "reach it.\n  Set WEFT_INTERFACE there to its interface (such as eth0), or to its address."
            )
