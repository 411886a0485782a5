"""Chaos: kills, stops or spoils workers of a run by seed, so that users can see how their own script goes on."""

import signal
from collections.abc import Callable, Mapping
from typing import NamedTuple

from weft.config.chaos import KILL, NAN, STOP_PROCESS, ChaosDraws, ChaosPlan


class Blow(NamedTuple):
    """What happens to a worker."""

    signal: int | None
    """The signal that its process is sent; None: its gradients are NaN from then on."""
    is_what: str
    """What the worker is, in words."""


BLOWS = {
    KILL: Blow(signal.SIGKILL, "killed"),
    STOP_PROCESS: Blow(signal.SIGSTOP, "stopped"),
    NAN: Blow(None, "given gradients that are not finite"),
}


class Chaos:
    """The faults of one run. `strike` sends a signal to a worker, or spoils its gradients."""

    def __init__(self, plan: ChaosPlan, strike: Callable[[int, int | None], None]) -> None:
        self._plan = plan
        self._strike = strike
        self._draws = ChaosDraws(plan)
        self._due_s: float | None = None
        self._struck: set[int] = set()
        """The pids of those that were struck."""

    def check(self, now_s: float, members: Mapping[int, int]) -> str | None:
        """Strike one of `members`, pids by rank, if it is time; the last is spared. Returns what happened, in words."""
        if self._due_s is None:
            self._due_s = self._draws.next_s(now_s)
        healthy = sorted(
            rank for rank, pid in members.items() if pid not in self._struck
        )  # one that was struck may not be found lost yet
        if now_s < self._due_s or len(healthy) < 2:
            return None
        self._due_s = self._draws.next_s(now_s)
        victim = self._draws.victim(healthy)
        self._struck.add(members[victim])
        blow = BLOWS[self._plan.kind]
        self._strike(victim, blow.signal)
        return f"chaos: worker {victim} is {blow.is_what}"
