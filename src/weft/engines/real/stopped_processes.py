"""Finds processes that a signal (SIGSTOP) or a debugger has stopped, by /proc/PID/stat, and for how long."""

import os
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Generic, TypeVar

STOPPED_STATES = ("T", "t")
"""States in /proc/PID/stat: stopped by a signal, or by a debugger."""

K = TypeVar("K", bound=Hashable)


def process_state(pid: int) -> str:
    """The state letter in /proc/PID/stat, which follows the name in parentheses; empty if the process is gone."""
    return next(iter(_stat(pid)), "")


def parent_of(pid: int) -> int:
    """The process id of the parent of `pid`; 0 if the process is gone."""
    return int(next(iter(_stat(pid)[1:2]), 0))


def children_of(pid: int) -> list[int]:
    """The processes whose parent is `pid`; reads all of /proc."""
    return [each for name in os.listdir("/proc") if name.isdigit() and parent_of(each := int(name)) == pid]


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


class Stops(Generic[K]):
    """For how long processes have been seen stopped. A process that is continued in between starts from 0 again."""

    def __init__(self) -> None:
        self._since: dict[K, float] = {}

    def see(self, states: Mapping[K, str], now_s: float) -> dict[K, float]:
        """Take the current states of all processes; returns for how many seconds each stopped one has been stopped."""
        stopped = [key for key, state in states.items() if state in STOPPED_STATES]
        self._since = {key: self._since.get(key, now_s) for key in stopped}
        return {key: now_s - since_s for key, since_s in self._since.items()}
