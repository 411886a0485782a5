"""Counts the samples of the committed steps of a run whose workers were killed, by its processes' logs and parameters.

A step is committed when it has returned: then its process logs it. Of a process that was killed, the last batch that it
had taken may be committed or not, which the others know: if not, they take it. So for each epoch:

- with steps in common no sample is logged as committed twice; elsewhere only one of a lost process's last step may be;
- where a coordinator deals out portions, it has slow ones computed twice, on purpose, and counts the first;
- every sample is committed, may be committed in a lost process's last batch, or is counted by the run as unused.

Where all replicas are equal, the parameters tell without any doubt: each sample has moved its own, once.
"""

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from support.scripts.dying_scripts import check_each_once
from survived_script import NUM_EPOCHS, NUM_SAMPLES

from weft.config.registry import strategy as strategy_of

EQUAL_REPLICAS = ("allreduce",)
"""Strategies under which a step moves each of its samples' parameters by 1 over their number, for all workers."""

Sample = tuple[int, int]
"""Its epoch and its number."""


@dataclass
class ProcessLog:
    """What one process took and committed."""

    is_lost: bool
    taken: list[list[Sample]]
    committed: list[list[Sample]]

    @property
    def doubtful(self) -> list[Sample]:
        """What it had taken when it was killed."""
        return self.taken[-1] if self.is_lost and len(self.taken) > len(self.committed) else []

    @property
    def last(self) -> list[Sample]:
        """Its last step, if it is lost: others may have repeated it where they do not wait for each other."""
        return self.committed[-1] if self.is_lost and self.committed else []


def read_log(path: Path) -> ProcessLog:
    """The log of a process. It counts as lost if it has not written its parameters, as it does at its script's end."""
    taken: list[list[Sample]] = []
    committed: list[list[Sample]] = []
    for line in path.read_text().splitlines():
        what, epoch, *rows = line.split()
        (taken if what == "taken" else committed).append([(int(epoch), int(row)) for row in rows])
    return ProcessLog(not path.with_suffix(".npy").exists(), taken, committed)


def miscounted(folder: Path, strategy: str, num_unused: int) -> list[str]:
    """In words, what is wrong with the samples of a run's committed steps."""
    logs = [read_log(path) for path in sorted(folder.glob("*.log"))]
    missed = _unused(logs, num_unused)
    if not strategy_of(strategy).deals_portions:
        missed += _repeated(logs, in_common=strategy_of(strategy).keeps_step)
    if strategy in EQUAL_REPLICAS:
        missed += _moved(folder, num_unused)
    return missed


def _unused(logs: list[ProcessLog], num_unused: int) -> list[str]:
    committed = {sample for log in logs for batch in log.committed for sample in batch}
    doubtful = {sample for log in logs for sample in log.doubtful}
    missed = []
    num_at_most, num_all = len(committed | doubtful) + num_unused, NUM_EPOCHS * NUM_SAMPLES
    if num_at_most < num_all:
        missed.append(f"{num_all - num_at_most} samples were not used, and are not told ({num_unused} are)")
    if len(committed) + num_unused > num_all:
        missed.append(f"{num_unused} samples are told as unused, but {len(committed)} of {num_all} were used")
    return missed


def _repeated(logs: list[ProcessLog], *, in_common: bool) -> list[str]:
    times = Counter(sample for log in logs for batch in log.committed if not _stands_in(batch) for sample in batch)
    repeated = set() if in_common else {sample for log in logs for sample in log.last}
    twice = sorted(sample for sample, count in times.items() if count > (2 if sample in repeated else 1))
    return [f"used more often than allowed (epoch, sample): {twice[:8]}, {len(twice)} in all"] if twice else []


def _stands_in(batch: list[Sample]) -> bool:
    """For whom a round has no sample, there is one of another's, which is given twice, as a single one is."""
    return len(set(batch)) == 1


def _moved(folder: Path, num_unused: int) -> list[str]:
    """By the parameters of a worker that has seen all epochs, and of all others at their end."""
    replicas = [np.load(path) for path in sorted(folder.glob("*.npy"))]
    whole = next(epochs for epochs in replicas if len(epochs) == NUM_EPOCHS + 1)
    missed = [] if all(np.array_equal(each[-1], whole[-1]) for each in replicas) else ["replicas differ at the end"]
    moved = [before - after for before, after in pairwise(whole)]
    num_still = sum(int((far == 0).sum()) for far in moved)
    if num_still != num_unused:
        missed.append(f"{num_still} samples moved no parameter, but {num_unused} are told as unused")
    try:
        for far in moved:
            check_each_once(far[far != 0])
    except AssertionError as error:
        missed.append(f"by the parameters, {error}")
    return missed
