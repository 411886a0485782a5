"""A script that trains with checkpoints in the process of the test, and may stop at any step."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import weft
from support.checkpoints.disks import QuickDisk
from support.checkpoints.written import facts
from weft.adapters.alone import Alone
from weft.checkpoints.disk import Disk
from weft.checkpoints.folder import find_newest
from weft.checkpoints.interval import read_interval
from weft.checkpoints.taking import CheckpointPlan, Checkpoints
from weft.core.seat import sit

NUM_EPOCHS, NUM_BATCHES = 3, 5
QUICK = QuickDisk()


class Stopped(Exception):
    """The process was killed."""


class Noisy(torch.utils.data.Dataset[Any]):
    """Samples with noise of their own, drawn when they are read."""

    def __len__(self) -> int:
        return 4 * NUM_BATCHES - 1

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.full((3,), float(index)) + torch.randn(3) + float(np.random.rand()), torch.tensor(index % 2)


def train(
    folder: Path | None,
    every: str = "2steps",
    stop_at: int | None = None,
    optimizer: str = "Adam",
    disk: Disk = QUICK,
    width: int = 4,
    kept: str = "scheduler",
    batch_size: int = 4,
) -> tuple[dict[str, torch.Tensor], list[str]]:
    """The model's tensors in the end, and what was told; raises Stopped after the update of step `stop_at`."""
    told: list[str] = []
    seat = Alone()
    if folder is not None:
        found = find_newest(folder).path
        plan = CheckpointPlan(str(folder), facts(), read_interval(every, ""), None if found is None else str(found))
        seat.checkpoints = checkpoints = Checkpoints(plan, told.append, disk=disk)
    before = sit(seat)
    try:
        torch.manual_seed(1)
        np.random.seed(1)
        model = nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width), nn.Dropout(0.4), nn.Linear(width, 2))
        inner = getattr(torch.optim, optimizer)(model.parameters(), lr=0.05)
        generator = torch.Generator().manual_seed(5)
        loader = torch.utils.data.DataLoader(Noisy(), batch_size, shuffle=True, generator=generator)
        worker = weft.join(model, inner)
        scheduler = torch.optim.lr_scheduler.StepLR(inner, 2, 0.9)
        worker.keep(**{kept: scheduler})
        for _ in worker.epochs(NUM_EPOCHS):
            for x, y in worker.share(loader):

                def closure(x: torch.Tensor = x, y: torch.Tensor = y) -> torch.Tensor:
                    inner.zero_grad()
                    loss = nn.functional.cross_entropy(model(x), y)
                    loss.backward()
                    return loss

                inner.step(closure)
                if worker.steps == stop_at:
                    raise Stopped
                scheduler.step()
        if folder is not None:
            checkpoints.on_end(False)
    finally:
        sit(before)
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}, told
