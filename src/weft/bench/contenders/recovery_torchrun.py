"""The script of torchrun's contender in `weft bench recovery`: DistributedDataParallel on Gloo with snapshots.

When a process dies, torchrun ends and starts all of them anew (`--max-restarts`); they go on from the last snapshot, at
its place in the epoch.
"""

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NoReturn

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import BatchSampler, DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from weft.bench.contenders.recovery_course import accuracy_of, load_images, model_and_optimizer
from weft.bench.step_log import RecoveryTask, StepLog, own_recovery_task

SNAPSHOT = "snapshot.pt"


def batches_from(
    step: int, data: TensorDataset, sampler: "DistributedSampler[int]", batch_size: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """This process's batches after that of step `step`, epoch after epoch."""
    sampler_of_batches = BatchSampler(sampler, batch_size, drop_last=False)
    while True:
        epoch, num_done = divmod(step, len(sampler_of_batches))
        sampler.set_epoch(epoch)
        left = list(islice(sampler_of_batches, num_done, None))
        yield from DataLoader(data, batch_sampler=left)
        step += len(left)


def save_snapshot(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    """To another name first: a process that is killed meanwhile leaves the last one as it was."""
    unfinished = path.with_suffix(".unfinished")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, unfinished)
    unfinished.replace(path)


def load_snapshot(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Returns the step after which it was taken; 0 without one."""
    if not path.is_file():
        return 0
    kept = torch.load(path, weights_only=True)
    model.load_state_dict(kept["model"])
    optimizer.load_state_dict(kept["optimizer"])
    return int(kept["step"])


def main(task: RecoveryTask) -> NoReturn:
    """Train until the benchmark has seen enough; then rank 0 scores the trained model, and the process ends."""
    dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    x, y, x_test, y_test = load_images(task.data)
    model, optimizer = model_and_optimizer(task)
    snapshot = Path(task.folder, SNAPSHOT)
    step = load_snapshot(snapshot, model, optimizer)
    data = TensorDataset(x, y)
    sampler: DistributedSampler[int] = DistributedSampler(data, task.num_workers, rank, seed=task.seed)
    together = DistributedDataParallel(model)
    log = StepLog(task.folder, rank)
    for images, labels in batches_from(step, data, sampler, task.batch_size):
        log.began(len(labels))
        optimizer.zero_grad()
        nn.functional.cross_entropy(together(images), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        step += 1
        if log.committed(step):
            break
        if rank == 0 and step % task.snapshot_steps == 0:
            save_snapshot(snapshot, model, optimizer, step)
    if rank == 0:
        log.scored(accuracy_of(model, x_test, y_test))
    dist.destroy_process_group()
    # torch 2.13: whoever frees the reducer joins Gloo's threads with the GIL held, for which one of them may wait
    os._exit(0)


if __name__ == "__main__":
    main(own_recovery_task())
