"""Processes that a signal or a debugger has stopped: what the system says of them, and for how long it has said so."""

import os
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Generic, TypeVar

STOPPED_STATES = ("T", "t")
"""Of /proc/PID/stat: stopped by a signal, or by a debugger."""

K = TypeVar("K", bound=Hashable)


def process_state(pid: int) -> str:
    """The letter of /proc/PID/stat, behind the name in parentheses; nothing if the process is gone."""
    return next(iter(_stat(pid)), "")


def parent_of(pid: int) -> int:
    """The process id of its parent; 0 if the process is gone."""
    return int(next(iter(_stat(pid)[1:2]), 0))


def children_of(pid: int) -> list[int]:
    """The processes whose parent this is; looks through all of /proc."""
    return [each for name in os.listdir("/proc") if name.isdigit() and parent_of(each := int(name)) == pid]


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


class Stops(Generic[K]):
    """For how long processes have been seen stopped. A process that goes on in between begins anew."""

    def __init__(self) -> None:
        self._since: dict[K, float] = {}

    def see(self, states: Mapping[K, str], now_s: float) -> dict[K, float]:
        """Take what the system says of all processes now; the seconds of each that is stopped."""
        stopped = [key for key, state in states.items() if state in STOPPED_STATES]
        self._since = {key: self._since.get(key, now_s) for key in stopped}
        return {key: now_s - since_s for key, since_s in self._since.items()}
