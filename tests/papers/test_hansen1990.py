"""Hansen & Salamon 1990, "Neural network ensembles": members train alone, and predict by their mean."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from support.processes.real import Heard, real
from support.scripts.training_scripts import simulated
from support.simulated.problems import SIZES, LeastSquares
from torch import nn

from weft.core.rules import SGD
from weft.strategies import Ensemble
from weft.testing.worlds import simulate_arrays

NUM_WORKERS = 3

SCRIPT = """
import sys
import torch
import weft
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(24, 4, dtype=torch.float64), torch.randint(0, 3, (24,))
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3)).double()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
worker = weft.join(model, optimizer)

@torch.no_grad()
def predicted():
    model.eval()
    prediction = model(x)
    model.train()
    return prediction

for epoch in worker.epochs(2):
    for inputs, labels in worker.share(DataLoader(TensorDataset(x, y), batch_size=2)):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    worker.report(loss=lambda: nn.functional.cross_entropy(predicted(), y), norm=lambda: predicted().norm())
worker.save(f"{sys.argv[1]}/model.safetensors")
worker.save(f"{sys.argv[1]}/own.safetensors", model="mine")
"""


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3)).double().eval()


def predictions(folder: Path) -> list[torch.Tensor]:
    """What each member of the saved ensemble predicts for the script's inputs."""
    torch.manual_seed(0)
    x, saved, found = torch.randn(24, 4, dtype=torch.float64), load_file(folder / "model.safetensors"), []
    for worker in range(NUM_WORKERS):
        model, prefix = network(), f"member{worker}."
        mine = {name.removeprefix(prefix): value for name, value in saved.items() if name.startswith(prefix)}
        model.load_state_dict(mine)
        own = load_file(folder / f"own.{worker}.safetensors")
        assert all(torch.equal(value, own[name]) for name, value in mine.items())
        with torch.no_grad():
            found.append(model(x))
    assert len(saved) == NUM_WORKERS * len(mine)
    return found


@pytest.mark.parametrize("driver", ["simulated", "shm", "tcp"])
def test_the_ensembles_prediction_is_the_mean_of_its_members_predictions(driver: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    if driver == "simulated":
        told: Mapping[str, float | None] = simulated(script, NUM_WORKERS, "ensemble", str(tmp_path)).facts.final
    else:
        heard = Heard()
        real(script, NUM_WORKERS, "ensemble", tmp_path, heard=heard, transport=driver)
        told = heard.reports[-1][1]
    members = predictions(tmp_path)
    assert all(not torch.equal(one, members[0]) for one in members[1:])
    assert told["norm"] == pytest.approx(float(torch.stack(members).mean(0).norm()), rel=1e-12)
    torch.manual_seed(0)
    torch.randn(24, 4, dtype=torch.float64)
    loss = nn.functional.cross_entropy(torch.stack(members).mean(0), torch.randint(0, 3, (24,)))
    assert told["loss"] == pytest.approx(float(loss), rel=1e-12)


def test_every_member_is_what_its_worker_would_have_become_alone() -> None:
    problem = LeastSquares(SIZES[:NUM_WORKERS])
    options: dict[str, Any] = {"num_steps": 20, "rule": SGD(0.1)}
    ran = simulate_arrays(Ensemble(), NUM_WORKERS, problem.gradient, starts=problem.starts(), **options)
    for worker, model in enumerate(ran.members):

        def gradient(_: int, step: int, w: np.ndarray, me: int = worker) -> np.ndarray:
            return problem.gradient(me, step, w)

        alone = simulate_arrays(Ensemble(), 1, gradient, starts=[problem.start], **options)
        assert np.array_equal(model[0], alone.result[0])
    assert ran.facts.bytes_sent == 0


def test_the_mean_of_the_members_errs_less_than_the_members_do_on_average() -> None:
    problem = LeastSquares(SIZES[:8])
    ran = simulate_arrays(Ensemble(), 8, problem.gradient, num_steps=30, starts=problem.starts(), rule=SGD(0.1))
    members = [model[0] for model in ran.members]
    mean_prediction = np.mean([problem.x @ w for w in members], axis=0)
    assert np.mean((mean_prediction - problem.y) ** 2) / 2 < np.mean([problem.loss(w) for w in members])
