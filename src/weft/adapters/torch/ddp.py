"""The baseline: the same script under torch's own DistributedDataParallel, on Gloo."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch import is_grad_enabled, nn
from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.nn.parallel import DistributedDataParallel

LOOPBACK = "127.0.0.1"
TIMEOUT = timedelta(minutes=10)


def open_store(rank: int, num_workers: int, port: int = 0) -> Any:
    """The meeting place of the processes: worker 0 opens it on a free port, the others are told which."""
    return TCPStore(LOOPBACK, port, num_workers, is_master=rank == 0, timeout=TIMEOUT, wait_for_workers=False)


def wrap(model: nn.Module, store: Any, rank: int, num_workers: int) -> DistributedDataParallel:
    """Let the model's own calls go through DistributedDataParallel whenever gradients are wanted."""
    dist.init_process_group("gloo", store=store, rank=rank, world_size=num_workers, timeout=TIMEOUT)
    forward: Callable[..., Any] = model.forward
    wrapped = DistributedDataParallel(model)
    is_inside = False

    def through_ddp(*args: Any, **kwargs: Any) -> Any:
        nonlocal is_inside
        if is_inside or not is_grad_enabled():
            return forward(*args, **kwargs)
        is_inside = True
        try:
            return wrapped(*args, **kwargs)
        finally:
            is_inside = False

    model.forward = through_ddp
    return wrapped


def leave() -> None:
    """End the process group, when all workers do."""
    dist.destroy_process_group()
