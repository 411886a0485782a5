"""One run of a contender of `weft bench recovery`: followed by its logs, disturbed by SIGKILL, ended in order."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from random import Random
from typing import NamedTuple

from weft.bench.recovery_figures import WorkerKill, committed_steps, full_strength_s
from weft.bench.step_log import LogFolder, ProcessLog
from weft.core.errors import NodeLost
from weft.parent_death import bound_to_this_process

WARM_STEPS = 10
"""A run counts from when every worker has committed so many steps."""
MORE_STEPS = 30
"""Processes end so many steps after the furthest: none is past it when it hears of it."""
START_S_MAX, RECOVER_S_MAX, END_S_MAX, LEAVE_S_MAX = 120.0, 60.0, 120.0, 5.0
POLL_S = 0.05
JITTER = 0.5
LINES_SHOWN = 15
SHARED_MEMORY = Path("/dev/shm")
"""Where the logs are written, if there is such a folder."""


class PlannedKill(NamedTuple):
    """Who is to be killed, so many seconds after a run began to count."""

    after_s: float
    rank: int


def planned_kills(every_s: float, seconds: float, num_workers: int, seed: int) -> list[PlannedKill]:
    """Kills after 0.5 to 1.5 times `every_s` each, of workers drawn by the seed; none in the last half interval."""
    rng = Random(f"recovery/{seed}")
    kills: list[PlannedKill] = []
    after_s = 0.0
    while True:
        after_s += every_s * rng.uniform(1 - JITTER, 1 + JITTER)
        if after_s > seconds - JITTER * every_s:
            return kills
        kills.append(PlannedKill(after_s, rng.randrange(num_workers)))


@dataclass(frozen=True)
class RunRecord:
    """What a run left: its logs, the kills that were done, and the time that counts."""

    logs: list[ProcessLog]
    kills: list[WorkerKill]
    num_missed: int
    """Planned kills whose worker made no steps at that moment, because it had not come back yet."""
    begin_s: float
    end_s: float

    @property
    def accuracy(self) -> float | None:
        return next((log.accuracy for log in self.logs if log.accuracy is not None), None)


class DisturbedRun:
    """The processes of one run. `with` makes its folder and, in the end, ends all its processes."""

    def __init__(self, name: str, num_workers: int, *, are_common: bool = True) -> None:
        self._name = name
        self._num_workers = num_workers
        self._are_common = are_common
        self._pidfds: dict[int, int] = {}
        """By pid, of every process that has a log: only ever that process is killed."""
        self._kills: list[WorkerKill] = []
        self._launcher: subprocess.Popen[bytes] | None = None
        self._closing = ExitStack()

    def __enter__(self) -> "DisturbedRun":
        with ExitStack() as stack:
            place = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
            self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weft-recovery-", dir=place)))
            self._output = stack.enter_context(tempfile.TemporaryFile())
            self._logs = LogFolder(self.folder)
            stack.callback(self._end)
            self._closing = stack.pop_all()
        return self

    def __exit__(self, *how: object) -> None:
        self._closing.close()

    def run(self, command: list[str], env: Mapping[str, str], seconds: float, plan: Sequence[PlannedKill]) -> RunRecord:
        """Start the launcher, let the workers train for `seconds`, and kill by plan meanwhile."""
        self._launcher = subprocess.Popen(
            bound_to_this_process(command),
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env=env,
            start_new_session=True,  # Ctrl-C reaches the benchmark alone, which then ends its processes in order
        )
        if not self._follow(START_S_MAX, self._is_warm):
            raise self._lost(f"had not made {WARM_STEPS} steps on each worker after {START_S_MAX:.0f} s")
        begin_s = time.monotonic()
        for after_s, rank in plan:
            self._follow(begin_s + after_s - time.monotonic())
            self._kill(rank)
        self._follow(begin_s + seconds - time.monotonic())
        self._follow(RECOVER_S_MAX, self._is_whole)
        self._logs.end_after(max(log.last_step for log in self._logs.logs) + MORE_STEPS)
        if not self._follow(END_S_MAX, lambda: self._launcher is not None and self._launcher.poll() == 0):
            raise self._lost(f"had not ended {END_S_MAX:.0f} s after its last step")
        self._logs.read()
        return RunRecord(self._logs.logs, self._kills, len(plan) - len(self._kills), begin_s, begin_s + seconds)

    def _follow(self, seconds: float, is_enough: Callable[[], bool] = lambda: False) -> bool:
        """Read the logs for so many seconds, or until it is enough (True). Raises NodeLost if the launcher fails."""
        assert self._launcher is not None
        deadline = time.monotonic() + seconds
        while True:
            for log in self._logs.read():
                with suppress(ProcessLookupError):  # gone already: there is nothing left of it to kill
                    self._pidfds[log.pid] = os.pidfd_open(log.pid)
            if is_enough():
                return True
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            if self._launcher.poll() is not None:
                raise self._lost(f"ended with exit code {self._launcher.returncode}")
            time.sleep(min(POLL_S, left_s))

    def _is_warm(self) -> bool:
        steps = {log.rank: log.last_step for log in self._logs.logs}
        return len(steps) == self._num_workers and min(steps.values()) >= WARM_STEPS

    def _is_whole(self) -> bool:
        if not self._kills:
            return True
        steps = committed_steps(self._logs.logs, are_common=self._are_common)
        return full_strength_s(self._kills[-1], steps, self._num_workers) < inf

    def _kill(self, rank: int) -> None:
        """Kill the last process of this worker, unless it is dead already or has made no step yet."""
        newest = [log for log in self._logs.logs if log.rank == rank][-1]
        was_killed = newest.pid in {kill.pid for kill in self._kills}  # a dead process takes signals until it is reaped
        if was_killed or not newest.last_step or newest.pid not in self._pidfds:
            return
        kill = WorkerKill(rank, newest.pid, time.monotonic())
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfds[newest.pid], signal.SIGKILL)
            self._kills.append(kill)

    def _lost(self, what: str) -> NodeLost:
        self._output.seek(0)
        said = self._output.read().decode(errors="replace").splitlines()[-LINES_SHOWN:]
        words = "\n".join(f"  {line}" for line in said) or "  It said nothing."
        return NodeLost(f"contender '{self._name}' {what}. Its last words:\n{words}")

    def _end(self) -> None:
        if self._launcher is not None:
            for signalled in (signal.SIGTERM, signal.SIGKILL):
                if self._launcher.poll() is None:
                    self._launcher.send_signal(signalled)
                with suppress(subprocess.TimeoutExpired):
                    self._launcher.wait(LEAVE_S_MAX)
        for pidfd in self._pidfds.values():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.close(pidfd)
