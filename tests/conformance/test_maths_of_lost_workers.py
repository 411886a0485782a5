"""Synchronous steps with lost workers, done again by hand: with the members and samples that the run says it had."""

from collections import defaultdict
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.processes.real import real
from support.scripts.dying_scripts import BEGIN
from support.scripts.float64_problem import NUM_SAMPLES, float64_problem
from support.scripts.training_scripts import write
from torch import nn

from weft.config.on_loss import REPLACE, SHRINK
from weft.engines.local.fork_server import FOLLOW_UPS

NUM_WORKERS, NUM_EPOCHS = 4, 3
DEATHS = "1:3:forward 0:6:backward 2:9:after"

SCRIPT = f"""
{BEGIN}
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from support.scripts.float64_problem import NUM_SAMPLES, float64_problem

x, y, model, optimizer = float64_problem()
loader = DataLoader(TensorDataset(torch.arange(NUM_SAMPLES)), batch_size=5, shuffle=True)
worker = weft.join(model, optimizer)
log = os.open(f"{{sys.argv[1]}}/{{worker.rank}}.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
life = begin_life(worker.rank)
model[0].weight.register_hook(lambda gradient: perhaps_die("backward"))  # those of the last layer are there
for _ in worker.epochs({NUM_EPOCHS}):
    for (rows,) in worker.share(loader):
        perhaps_die("forward")
        time.sleep(0.2 if sys.argv[4] == "{REPLACE}" and awaits_newcomer() else 0.005)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x[rows]), y[rows]).backward()
        optimizer.step()
        os.write(log, f"{{worker.steps}} {{' '.join(map(str, rows.tolist()))}}\\n".encode())
        perhaps_die("after")
np.save(f"{{sys.argv[1]}}/{{worker.rank}}.npy", nn.utils.parameters_to_vector(model.parameters()).detach().numpy())
"""


@pytest.fixture(autouse=True, scope="module")
def torch_is_imported() -> None:
    """Workers that are forked from this process begin at once, as those of a fork server do."""
    for name in ("torch", *FOLLOW_UPS["torch"]):
        import_module(name)


def samples_of_steps(tmp_path: Path) -> list[set[int]]:
    """Of each step, in order, what its members had. A sample that a worker is given twice, or stands in with, is one of
    the step's samples all the same."""
    steps = defaultdict[int, set[int]](set)
    for rank in range(NUM_WORKERS):
        for line in (tmp_path / f"{rank}.txt").read_text().splitlines():
            step, *rows = map(int, line.split())
            steps[step].update(rows)
    assert sorted(steps) == list(range(1, len(steps) + 1))
    return [steps[step] for step in sorted(steps)]


def by_hand(steps: list[set[int]]) -> Any:
    """The parameters of a single worker that makes these steps."""
    x, y, model, optimizer = float64_problem()
    for rows in map(sorted, steps):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x[rows]), y[rows]).backward()
        optimizer.step()
    return nn.utils.parameters_to_vector(model.parameters()).detach().numpy()


@pytest.mark.parametrize("on_loss", [SHRINK, REPLACE])
@pytest.mark.parametrize(
    "options",
    [{}, {"transport": "tcp"}, {"collective": "ring"}, {"hosts": (0, 0, 1, 1)}],
    ids=["shm", "tcp", "ring", "hosts"],
)
def test_all_reduce_with_three_kills_equals_the_maths_by_hand(
    options: dict[str, Any], on_loss: str, tmp_path: Path
) -> None:
    script = write(tmp_path, SCRIPT)
    outcome = real(script, NUM_WORKERS, "allreduce", tmp_path, DEATHS, "SIGKILL", on_loss, on_loss=on_loss, **options)
    assert sorted(loss.worker for loss in outcome.losses) == [0, 1, 2]
    steps = samples_of_steps(tmp_path)
    assert sum(map(len, steps)) == NUM_EPOCHS * NUM_SAMPLES, "each sample is in one step of each epoch"
    expected = by_hand(steps)
    for rank in range(NUM_WORKERS) if on_loss == REPLACE else [3]:
        np.testing.assert_allclose(np.load(tmp_path / f"{rank}.npy"), expected, rtol=1e-9, atol=1e-12)
