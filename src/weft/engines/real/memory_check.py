"""Checks that a run fits into memory: compares what it needs with what each host has available."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from weft.core.errors import ConfigError

HEADROOM = 0.9
"""The share of the available memory that a run may fill."""


class Room(NamedTuple):
    """The memory that a host has available."""

    host: str
    available_bytes: int


def resident_bytes() -> int:
    """Resident memory of this process (/proc/self/statm)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def available_bytes() -> int:
    """Memory that this machine has available (MemAvailable), or what its cgroup's limit leaves, if that is less."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) * 1024
            break
    else:
        raise ConfigError("/proc/meminfo does not say how much memory is available.\n  Use --dry.")
    for limit_file, used_file in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        if Path(limit_file).exists() and (limit := Path(limit_file).read_text().strip()) != "max":
            free = min(free, int(limit) - int(Path(used_file).read_text()))
    return free


def check_fits(num_workers: int, bytes_per_worker: int, available: int, host: str | None = None) -> None:
    """Raise ConfigError if `num_workers` workers do not fit; `host` is their host's name if not all are here."""
    needed = num_workers * bytes_per_worker
    if needed <= available * HEADROOM:
        return
    fitting = max(int(available * HEADROOM // bytes_per_worker), 1)
    where, there = "", ""
    advice = f"Use -n {fitting} or fewer, or --dry, which needs no tensors."
    if host is not None:
        where, there = f" on host {host}", " there"
        advice = f"Start {fitting} there or fewer, and the others on more hosts."
    raise ConfigError(
        f"{num_workers} workers{where} need about {needed / 2**30:.1f} GiB ({bytes_per_worker / 2**20:.1f} MiB each), "
        f"but {available / 2**30:.1f} GiB are available{there}.\n"
        f"  {advice}"
    )


def check_all_fit(hosts: Sequence[int], rooms: Sequence[Room], bytes_per_worker: int) -> None:
    """Raise ConfigError if the workers of a host will not fit into its memory. `hosts` has the number of each worker's
    host; `rooms` are those hosts' in order, empty: all workers are on this host."""
    if not rooms:
        check_fits(len(hosts), bytes_per_worker, available_bytes())
        return
    for room, num_workers in zip(rooms, Counter(hosts).values(), strict=True):
        check_fits(num_workers, bytes_per_worker, room.available_bytes, room.host)
