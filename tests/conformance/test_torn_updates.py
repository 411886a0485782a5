"""A worker dies inside an update of the shared parameters: the others finish it, as if it had died a moment later."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from support.processes.real import real
from support.scripts.training_scripts import write

from weft.config.on_loss import SHRINK
from weft.config.options import BucketOptions, Options

NUM_WORKERS, VICTIM = 4, 2
SMALL_BUCKETS = replace(Options(), buckets=BucketOptions(bytes_max=2000))

SCRIPT = """
import os, signal, sys
import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset
import weft
from weft.adapters.torch import pieces
from weft.store.journal import Journal

pieces.PIECE_BYTES = 256
out, optimizer_text, moment, at_piece, at_step, victim = *sys.argv[1:4], *map(int, sys.argv[4:])
torch.manual_seed(1)
x = torch.randn(96, 12, dtype=torch.float64)
y = (x @ torch.randn(12, 3, dtype=torch.float64)).argmax(1)
model = torch.nn.Sequential(torch.nn.Linear(12, 30), torch.nn.Tanh(), torch.nn.Linear(30, 20), torch.nn.Tanh(),
                            torch.nn.Linear(20, 3)).double()
optimizer = eval(optimizer_text, {"torch": torch, "p": model.parameters()})
worker = weft.join(model, optimizer)

def struck(when, piece):
    return (worker.rank, worker.steps, when, piece) == (victim, at_step, moment, at_piece)

def die():
    os.kill(os.getpid(), signal.SIGKILL)

keep, done = Journal.keep, Journal.done

def keeps(self, of, piece, arrays):
    if struck("before", piece):
        die()
    keep(self, of, piece, arrays)
    if struck("kept", piece):
        die()
    if struck("half", piece):
        for array in arrays:
            array[: len(array) // 2 + 1] = 1e300
        die()

def is_done(self, of, piece):
    if struck("updated", piece):
        die()
    done(self, of, piece)
    if struck("done", piece):
        die()

Journal.keep, Journal.done = keeps, is_done
for epoch in worker.epochs(2):
    for a, b in worker.share(TensorDataset(x, y), batch_size=4, shuffle=True):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(a), b).backward()
        optimizer.step()
        if moment == "after" and worker.rank == victim and worker.steps == at_step + 1:
            die()
state = [v for s in optimizer.state_dict()["state"].values() for v in s.values() if torch.is_tensor(v)]
flat = [t.detach().double().reshape(-1) for t in (*model.parameters(), *state)]
np.save(f"{out}/{worker.rank}.npy", torch.cat(flat).numpy())
"""

SGD = "torch.optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.3, weight_decay=1e-3)"
ADAM = "torch.optim.Adam(p, lr=0.01, amsgrad=True)"
NADAM = "torch.optim.NAdam(p, lr=0.01)"


def trained(optimizer: str, moment: str, piece: int, step: int, folder: Path) -> list[Any]:
    """The parameters and the optimizer's state of all workers that are left."""
    outcome = real(
        write(folder, SCRIPT), NUM_WORKERS, "allreduce", folder, optimizer, moment, piece, step, VICTIM,
        on_loss=SHRINK, options=SMALL_BUCKETS,
    )  # fmt: skip
    assert [loss.worker for loss in outcome.losses] == [VICTIM]
    return [np.load(folder / f"{rank}.npy") for rank in range(NUM_WORKERS) if rank != VICTIM]


@cache
def after_the_step(optimizer: str, step: int) -> Any:
    """What is trained if the worker dies when its step is over."""
    with TemporaryDirectory() as folder:
        return trained(optimizer, "after", 0, step, Path(folder))[0]


@pytest.mark.parametrize(
    ("optimizer", "moment", "piece", "step"),
    [
        (SGD, "before", 0, 4), (SGD, "kept", 0, 4), (SGD, "half", 1, 4), (SGD, "done", 1, 4), (SGD, "half", 1, 0),
        (SGD, "half", 6, 4),
        (ADAM, "half", 1, 4), (ADAM, "updated", 1, 4), (ADAM, "half", 1, 0),
        (NADAM, "half", 1, 4), (NADAM, "done", 1, 4),
    ],
)  # fmt: skip
def test_an_update_that_a_death_interrupts_is_finished(
    optimizer: str, moment: str, piece: int, step: int, tmp_path: Path
) -> None:
    expected = after_the_step(optimizer, step)
    for found in trained(optimizer, moment, piece, step, tmp_path):
        assert np.array_equal(found, expected)
