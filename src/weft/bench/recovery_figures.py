"""What the logs of a run with kills say: how soon steps go on, how much work is lost, and how much is committed."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import ceil, inf
from typing import NamedTuple

from weft.bench.step_log import ProcessLog

CALM_AFTER_S = 1.0
CALM_S_MIN = 3.0
"""A calm time is at least so long: with tens of steps, its rate is known to about a percent."""


class WorkerKill(NamedTuple):
    """A SIGKILL that the benchmark has sent to a process."""

    rank: int
    pid: int
    at_s: float


class CommittedStep(NamedTuple):
    """One worker's part of a step that has been committed and was not rolled back."""

    committed_s: float
    began_s: float
    rank: int
    pid: int
    step: int
    num_samples: int


class LostWork(NamedTuple):
    """Batches that workers took and did not commit, or committed and then rolled back, and their samples."""

    num_batches: int
    num_samples: int


def committed_steps(logs: Iterable[ProcessLog], *, are_common: bool = True) -> list[CommittedStep]:
    """All steps that count, in order of time.

    Where all workers' steps have common numbers, a process that starts anew and commits step s makes void what any
    process had committed before that start under the numbers s and higher: it was rolled back, and is done again.
    Where each worker counts for itself (`are_common` False), equal numbers mean nothing.
    """
    logs = list(logs)
    made = sorted(
        CommittedStep(logged.committed_s, logged.began_s, log.rank, log.pid, logged.step, logged.num_samples)
        for log in logs
        for logged in log.steps
        if logged.committed_s is not None and logged.step is not None
    )
    if not are_common:
        return made
    first: dict[int, int] = {}
    for one in made:
        first.setdefault(one.pid, one.step)
    restarts = sorted((log.started_s or 0.0, first[log.pid]) for log in logs if log.pid in first)
    starts = [started_s for started_s, _ in restarts]
    lowest_later = [inf] * (len(restarts) + 1)
    for number in range(len(restarts) - 1, -1, -1):
        lowest_later[number] = min(lowest_later[number + 1], restarts[number][1])
    return [one for one in made if one.step < lowest_later[bisect_left(starts, one.committed_s)]]


def first_after(kill: WorkerKill, steps: Sequence[CommittedStep]) -> dict[int, float]:
    """By rank: seconds from the kill until the commit of its first step that was begun after the kill.

    A step that was begun before may still hold the killed worker's part, and says nothing about going on without it.
    """
    seconds: dict[int, float] = {}
    for one in steps:
        if one.began_s > kill.at_s and one.pid != kill.pid:
            seconds.setdefault(one.rank, one.committed_s - kill.at_s)
    return seconds


def next_step_s(kill: WorkerKill, steps: Sequence[CommittedStep]) -> float:
    """Seconds from the kill to the first commit of a step begun after it, by any process; inf: there was none."""
    return min(first_after(kill, steps).values(), default=inf)


def full_strength_s(kill: WorkerKill, steps: Sequence[CommittedStep], num_workers: int) -> float:
    """Seconds from the kill until every worker, the replaced one too, has committed a step begun after it, or inf."""
    seconds = first_after(kill, steps)
    return max(seconds.values()) if len(seconds) == num_workers else inf


def newcomer_of(kill: WorkerKill, logs: Iterable[ProcessLog]) -> ProcessLog | None:
    """The log of the first process that was started in a killed one's place."""
    later = [log for log in logs if log.rank == kill.rank and (log.started_s or 0.0) > kill.at_s]
    return min(later, key=lambda log: log.started_s or 0.0, default=None)


def started_s(kill: WorkerKill, logs: Iterable[ProcessLog]) -> float:
    """Seconds from the kill until the new process had joined, and waited to come in; inf: there was none."""
    newcomer = newcomer_of(kill, logs)
    return inf if newcomer is None or newcomer.started_s is None else newcomer.started_s - kill.at_s


def still_s(kill: WorkerKill, logs: Iterable[ProcessLog], steps: Sequence[CommittedStep]) -> float:
    """The longest time in which no other worker committed a step, from the new process's start to its first commit.

    That is a rest and the step before it; inf: nobody came.
    """
    newcomer = newcomer_of(kill, logs)
    own = [one.committed_s for one in steps if newcomer is not None and one.pid == newcomer.pid]
    if newcomer is None or newcomer.started_s is None or not own:
        return inf
    first, last = newcomer.started_s, own[0]
    times = [one.committed_s for one in steps if one.rank != kill.rank and first <= one.committed_s <= last]
    return max(after - before for before, after in pairwise([first, *times, last]))


def lost_work(logs: Iterable[ProcessLog], steps: Iterable[CommittedStep], begin_s: float, end_s: float) -> LostWork:
    """What was begun from `begin_s` to `end_s` and does not count in the end."""
    counted = {(one.pid, one.began_s) for one in steps}
    lost = [
        logged.num_samples
        for log in logs
        for logged in log.steps
        if begin_s <= logged.began_s < end_s and (log.pid, logged.began_s) not in counted
    ]
    return LostWork(len(lost), sum(lost))


def samples_per_s(steps: Iterable[CommittedStep], begin_s: float, end_s: float) -> float:
    """Samples of steps committed from `begin_s` to `end_s`, per second."""
    return sum(one.num_samples for one in steps if begin_s <= one.committed_s < end_s) / (end_s - begin_s)


def calm_goodput(
    kills: Sequence[WorkerKill], steps: Sequence[CommittedStep], num_workers: int, begin_s: float, end_s: float
) -> float | None:
    """Committed samples over what would have been committed at the rate of calm times of the same run.

    From a kill to the next one, it is calm from CALM_AFTER_S after all workers were back. A machine that is now slower
    and now faster, by more than kills cost, is so in both. None: there is no calm time, or a worker never came back.
    """
    marks = [begin_s, *(kill.at_s for kill in kills), end_s]
    back_s = [begin_s, *(kill.at_s + full_strength_s(kill, steps, num_workers) + CALM_AFTER_S for kill in kills)]
    calm = [(since, until) for since, until in zip(back_s, marks[1:], strict=True) if until - since >= CALM_S_MIN]
    if not calm or inf in back_s:
        return None
    expected = 0.0
    for since, until in pairwise(marks):
        nearest = min(calm, key=lambda span: abs(span[1] - until))
        expected += (until - since) * samples_per_s(steps, *nearest)
    return samples_per_s(steps, begin_s, end_s) * (end_s - begin_s) / expected


def percentile(values: Sequence[float], fraction: float) -> float:
    """The smallest value that at least this fraction of all values does not exceed (nearest rank)."""
    return sorted(values)[max(1, ceil(fraction * len(values))) - 1]
