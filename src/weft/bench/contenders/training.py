"""A workload's loop, trained together in one of several ways."""

from collections.abc import Callable

import torch
from torch.nn.parallel import DistributedDataParallel

import weft
from weft.bench.contenders.gloo import meet
from weft.bench.contenders.workloads import Workload, workload
from weft.bench.serving import Task, own_task, serve


def alone(task: Task, work: Workload) -> None:
    """No communication: the loop as it is."""


def ddp(task: Task, work: Workload) -> None:
    """torch's own, as it comes."""
    meet(task)
    work.model = DistributedDataParallel(work.model)


def ddp_view(task: Task, work: Workload) -> None:
    """torch's own, with gradients that are views of its buckets."""
    meet(task)
    work.model = DistributedDataParallel(work.model, gradient_as_bucket_view=True)


def joined(task: Task, work: Workload) -> None:
    """Weft, or what else `weft run` is told to train with: the one line that a user adds, and one for batches that do
    not come from a loader."""
    work.count = weft.join(work.model, work.optimizer).count


TOGETHER: dict[str, Callable[[Task, Workload], None]] = {
    "bare": alone,
    "bare-kept": alone,
    "nocomm": alone,
    "ddp": ddp,
    "ddp-view": ddp_view,
    "ddp-kept": ddp_view,
    "ddp-netted": joined,
    "weft": joined,
    "weft-shm": joined,
    "weft-tcp": joined,
    "weft-stop": joined,
}


def main(task: Task) -> None:
    """Every contender makes the same steps; only how they train together differs."""
    torch.set_num_threads(1)
    work = workload(task.work)
    TOGETHER[task.contender](task, work)
    serve(task, work.steps())


if __name__ == "__main__":
    main(own_task())
