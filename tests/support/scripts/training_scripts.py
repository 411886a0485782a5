"""Small training scripts for tests, and what they saw while they ran."""

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

from weft.config.cluster import load_cluster
from weft.core.strategy import Strategy
from weft.engines.simulated.job import SimulatedJob
from weft.engines.simulated.outcome import Outcome
from weft.engines.simulated.runner import simulate
from weft.engines.simulated.world_run import SimulationObserver

SEEN: list[Any] = []
"""What the scripts of the last run told the test; they import this list."""

ARRAYS = """
import numpy as np
import weft
from support.scripts.training_scripts import SEEN

w = np.zeros(3)
worker = weft.join(arrays={"w": w}, optimizer=weft.Momentum(lr=0.1))
"""
ARRAYS_TRAIN = """
for epoch in worker.epochs(2):
    for rows in worker.share(13, batch_size=2):
        worker.step({"w": w - rows.mean()}, loss=rows.mean())
    worker.report(total=lambda: w.sum())
"""

TORCH = """
import sys
import torch
import weft
from support.scripts.training_scripts import SEEN
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(26, 4), torch.randint(0, 3, (26,))
loader = DataLoader(TensorDataset(x, y), batch_size=3, shuffle=True)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
"""
TORCH_JOIN = """
worker = weft.join(model, optimizer)
"""
TORCH_TRAIN = """
for epoch in worker.epochs(2):
    for inputs, labels in worker.share(loader):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
"""


def write(folder: Path, *pieces: str) -> Path:
    """A script made of these pieces; those that begin with an empty line are dedented."""
    path = folder / "train.py"
    path.write_text("".join(dedent(piece) if piece.startswith("\n") else piece for piece in pieces))
    return path


def simulated(
    script: Path,
    num_workers: int,
    strategy: Strategy | str | None = None,
    *arguments: str,
    cluster: str = "rack",
    show: Callable[[str], None] = print,
    tell: Callable[[str], None] = print,
    **options: Any,
) -> Outcome:
    """Simulate a script; SEEN then holds what its workers told."""
    SEEN.clear()
    job = SimulatedJob(
        script=script,
        arguments=arguments,
        cluster=load_cluster(cluster),
        num_workers=num_workers,
        strategy=strategy,
        **options,
    )
    return simulate(job, SimulationObserver(show, on_tell=tell))
