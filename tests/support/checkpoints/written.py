"""Small checkpoints, written as runs write them."""

from pathlib import Path

import numpy as np

from weft.checkpoints.disk import Disk
from weft.checkpoints.forms import Packing
from weft.checkpoints.interval import EVERY, CheckpointInterval
from weft.checkpoints.manifest import FORMAT, Manifest, RunFacts, versions
from weft.checkpoints.taking import CheckpointPlan
from weft.checkpoints.writing import Position, complete, write_part
from weft.data.share_records import HandedShares, Reached


def facts(num_workers: int = 1, steps_max: int | None = None) -> RunFacts:
    return RunFacts("allreduce", num_workers, 0, steps_max=steps_max)


def plan(folder: Path, every: CheckpointInterval = EVERY) -> CheckpointPlan:
    return CheckpointPlan(str(folder), facts(), every)


def write_checkpoint(
    folder: Path,
    step: int,
    disk: Disk | None = None,
    num_workers: int = 1,
    num_batches: int = 2,
    run: RunFacts | None = None,
) -> Path:
    """A checkpoint with an array of 100 numbers for each worker, all equal to the step plus the rank."""
    disk = disk or Disk()
    parts = []
    for rank in range(num_workers):
        packing = Packing(lambda value: None)
        state = packing.pack({"model": {"w": np.full(100, step + rank, "f4")}, "b": 1.5}, "worker")
        position = Position(1, num_batches, 8.0)
        if num_workers > 1:
            shares = HandedShares(0, 1, 1, list(range(num_workers)), [], {}, {}, 0, rank)
            position = Position(1, num_batches, 8.0, shares, Reached(2, {1: num_batches}))
        parts.append(write_part(folder, step, rank, position, state, packing.tensors, disk))
    manifest = Manifest(FORMAT, step, 3, run or facts(num_workers), versions(), ["w (100,) float32"], [])
    return complete(folder, manifest, parts, disk)
