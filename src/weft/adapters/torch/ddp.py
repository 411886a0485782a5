"""The baseline: the same script under torch's own DistributedDataParallel, on Gloo."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch import is_grad_enabled, nn
from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

LOOPBACK = "127.0.0.1"
TIMEOUT = timedelta(minutes=10)
FP16, POWERSGD = "fp16", "powersgd"
"""Hooks of torch's own that compress gradients."""
POWERSGD_RANK = 4
POWERSGD_START = 2
"""The first step that it compresses; its default of 1000 is for trainings far longer than ours."""
ONE_BUCKET_MB = 1000
"""With several buckets, PowerSGD's reductions overtake each other on Gloo, and the process crashes."""


def open_store(rank: int, num_workers: int, port: int = 0, host: str = LOOPBACK) -> Any:
    """The meeting place of the processes: worker 0 opens it on a free port, the others are told which."""
    return TCPStore(host, port, num_workers, is_master=rank == 0, timeout=TIMEOUT, wait_for_workers=False)


def wrap(model: nn.Module, store: Any, rank: int, num_workers: int, hook: str | None = None) -> DistributedDataParallel:
    """Let the model's own calls go through DistributedDataParallel whenever gradients are wanted."""
    dist.init_process_group("gloo", store=store, rank=rank, world_size=num_workers, timeout=TIMEOUT)
    forward: Callable[..., Any] = model.forward
    wrapped = DistributedDataParallel(model, bucket_cap_mb=ONE_BUCKET_MB if hook == POWERSGD else None)
    if hook == POWERSGD:
        state = PowerSGDState(None, matrix_approximation_rank=POWERSGD_RANK, start_powerSGD_iter=POWERSGD_START)
        wrapped.register_comm_hook(state, powerSGD_hook)
    elif hook == FP16:
        wrapped.register_comm_hook(dist.group.WORLD, fp16_compress_hook)
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
