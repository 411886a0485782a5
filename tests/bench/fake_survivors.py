"""Workers that log steps and do nothing else, and the launcher that starts those anew that die.

python fake_survivors.py TASK [RANK]: a worker, or with no rank the launcher. `data` of the task is how it fails.
"""

import os
import signal
import sys
import time

from weft.bench.step_log import RecoveryTask, StepLog, own_recovery_task


def work(task: RecoveryTask, rank: int) -> None:
    """The steps of all workers are numbered by the clock."""
    log = StepLog(task.folder, rank)
    is_last = False
    while not is_last:
        log.began(task.batch_size)
        sum(range(50_000))  # a millisecond
        is_last = log.committed(int(time.monotonic() * 200))
    log.scored(0.75)


def launch(task: RecoveryTask) -> None:
    """Start all, and those that die anew."""

    def start(rank: int) -> int:
        return os.posix_spawn(sys.executable, [sys.executable, __file__, task.text(), str(rank)], os.environ)

    workers = {start(rank): rank for rank in range(task.num_workers)}
    while workers:
        pid, status = os.wait()
        rank = workers.pop(pid)
        if status and task.data == "fails":
            sys.exit("a worker is dead")
        if status:
            workers[start(rank)] = rank
    if task.data == "lingers":
        signal.pause()


if __name__ == "__main__":
    own = own_recovery_task()
    if len(sys.argv) > 2:
        work(own, int(sys.argv[2]))
    else:
        launch(own)
