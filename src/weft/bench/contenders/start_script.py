"""The script of both contenders of `weft bench start`: each worker makes one step, and writes down when that was.

    python start_script.py weft|torchrun FOLDER

It is started by its path and imports Weft only under Weft: torchrun's processes need not wait for that.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

BATCH_SIZE = 32


class Together(NamedTuple):
    """What a worker trains, and its part of the samples: one batch."""

    rank: int
    model: nn.Module
    optimizer: torch.optim.Optimizer
    batches: Iterable[tuple[Tensor, Tensor]]
    leave: Callable[[], object]


def small_net() -> nn.Module:
    """About the network of examples/digits_cnn.py."""
    convolutions = (nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU())
    return nn.Sequential(*convolutions, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 4 * 4, 10))


def images(num_workers: int) -> TensorDataset:
    """Digits of noise, a batch for each worker: nothing is read, so that only the start is measured."""
    number = num_workers * BATCH_SIZE
    return TensorDataset(torch.rand(number, 1, 8, 8), torch.randint(10, (number,)))


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)


def by_weft() -> Together:
    """The lines that a user of Weft adds."""
    import weft

    model = small_net()
    optimizer = sgd(model)
    worker = weft.join(model, optimizer)
    batches = worker.share(DataLoader(images(worker.num_workers), BATCH_SIZE, shuffle=True))
    return Together(worker.rank, model, optimizer, batches, lambda: None)


def by_torchrun() -> Together:
    """The lines that a user of DistributedDataParallel adds."""
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data.distributed import DistributedSampler

    dist.init_process_group("gloo")
    model = DistributedDataParallel(small_net())
    data = images(dist.get_world_size())
    loader = DataLoader(data, BATCH_SIZE, sampler=DistributedSampler(data))
    return Together(dist.get_rank(), model, sgd(model), loader, leave_group)


def leave_group() -> None:
    """End at once: in torch 2.13, whoever frees the reducer joins Gloo's threads with the GIL held."""
    torch.distributed.destroy_process_group()
    os._exit(0)


WAYS = {"weft": by_weft, "torchrun": by_torchrun}


def main(way: str, folder: str) -> None:
    """Make the step."""
    torch.manual_seed(0)
    rank, model, optimizer, batches, leave = WAYS[way]()
    for inputs, labels in batches:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        Path(folder, str(rank)).write_text(f"{time.monotonic()}")
    leave()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
