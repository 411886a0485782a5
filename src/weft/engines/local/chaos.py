"""Chaos: kills or stops workers of a run by seed, so that users can see how their own script goes on."""

import signal
from collections.abc import Callable, Mapping
from random import Random

from weft.config.chaos import KILL, ChaosPlan

JITTER = 0.5
"""Faults come after 1 - JITTER to 1 + JITTER times the interval, so that they meet steps in all moments."""


class Chaos:
    """The faults of one run. `strike` sends a signal to a worker."""

    def __init__(self, plan: ChaosPlan, strike: Callable[[int, int], None]) -> None:
        self._plan = plan
        self._strike = strike
        self._rng = Random(f"chaos/{plan.seed}")
        self._due_s: float | None = None
        self._struck: set[int] = set()
        """The pids of those that were struck."""

    def check(self, now_s: float, members: Mapping[int, int]) -> str | None:
        """Strike one of `members`, pids by rank, if it is time; the last is spared. Returns what happened, in words."""
        if self._due_s is None:
            self._due_s = self._next(now_s)
        healthy = sorted(
            rank for rank, pid in members.items() if pid not in self._struck
        )  # one that was struck may not be found lost yet
        if now_s < self._due_s or len(healthy) < 2:
            return None
        self._due_s = self._next(now_s)
        victim = self._rng.choice(healthy)
        self._struck.add(members[victim])
        self._strike(victim, signal.SIGKILL if self._plan.kind == KILL else signal.SIGSTOP)
        return f"chaos: worker {victim} is {'killed' if self._plan.kind == KILL else 'stopped'}"

    def _next(self, now_s: float) -> float:
        return now_s + self._plan.every_s * self._rng.uniform(1 - JITTER, 1 + JITTER)
