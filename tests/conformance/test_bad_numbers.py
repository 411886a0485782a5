"""A worker whose gradient is not finite in one step: everybody goes on without it, and it is named."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch  # noqa: F401  once for all workers that are forked from here
from safetensors.numpy import load_file
from support.processes.real import Heard, real
from support.scripts.training_scripts import simulated
from support.simulated.recipes import RECIPES, VARIANTS

from weft.core.errors import CheckpointError, NotFinite
from weft.core.names import PARAMS

ARRAYS = """
import sys
import numpy as np
import weft

rng = np.random.default_rng(0)
x = rng.normal(size=(50, 6))
y = x @ rng.normal(size=6) + 3.0
w, b = rng.normal(size=6), np.zeros(1)
worker = weft.join(arrays={"w": w, "b": b}, optimizer=weft.Momentum(lr=0.1, momentum=0.3))
worker.tune(lr=(0.05, 0.2))
step = 0
for epoch in worker.epochs(6):
    for rows in worker.share(50, batch_size=2):
        error = x[rows] @ w + b - y[rows]
        if step == 3 and str(worker.rank) in sys.argv[1]:
            error[0] = float(sys.argv[2])
        worker.step({"w": x[rows].T @ error / len(rows), "b": error.mean(keepdims=True)}, loss=float(error @ error))
        step += 1
    worker.report(loss=lambda: float(np.mean((x @ w + b - y) ** 2)))
worker.save(sys.argv[3])
"""

TORCH = """
import sys
import torch
import weft
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(240, 4)
y = (x.sum(1) > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=6, shuffle=True)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
worker = weft.join(model, optimizer)
step = 0
for epoch in worker.epochs(2):
    for inputs, labels in worker.share(loader):
        if step == 3 and str(worker.rank) in sys.argv[1]:
            inputs = inputs * float(sys.argv[2])
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
    worker.report(loss=lambda: float((model(x).argmax(1) != y).float().mean()))
worker.save(sys.argv[3])
"""


def written(folder: Path, text: str) -> Path:
    script = folder / "train.py"
    script.write_text(text)
    return script


def one_host(folder: Path) -> str:
    """A cluster on which workers can share a replica."""
    file = folder / "cluster.toml"
    hosts = "[compute]\nseconds_per_sample = 1e-4\n[[hosts]]\ncount = 1\nworkers = 3\n"
    file.write_text(hosts + '[links.between]\nlatency = "50us"\nbandwidth = "10Gbit/s"\n')
    return str(file)


def check_run(
    told: dict[str, Any], lines: Sequence[str], saved: Path, workers: Sequence[int], num_workers: int
) -> None:
    """It learned, the model is finite, and exactly these workers were named."""
    assert told["final"]["loss"] < 0.25, "a model of zeros: 16.3 in the script of arrays, half of all in that of torch"
    assert told["not_finite"] == [int(worker in workers) for worker in range(num_workers)]
    named = sorted(match[1] for line in lines if (match := re.match(r"worker (\d) leaves out its gradient of ", line)))
    assert named == [str(worker) for worker in workers]
    assert all("step 3: the gradient of '" in line for line in lines if "leaves out" in line)
    assert all(np.isfinite(array).all() for array in load_file(saved).values())


@pytest.mark.parametrize("strategy", [*RECIPES.values(), *VARIANTS])
def test_every_strategy_goes_on_without_it(tmp_path: Path, strategy: str) -> None:
    lines: list[str] = []
    saved = tmp_path / "model.safetensors"
    ran = simulated(
        written(tmp_path, ARRAYS), 3, strategy, "1", "nan", str(saved), cluster=one_host(tmp_path), show=lines.append
    )
    for replica in ran.replicas:
        assert all(np.isfinite(replica.array(PARAMS, bucket)).all() for bucket in range(len(replica.buckets)))
    check_run(ran.to_json(), lines, saved, [1], 3)


@pytest.mark.parametrize("strategy", ["allreduce", "ssp", "local_sgd(period=2)"])
def test_a_step_that_is_bad_on_all_workers_changes_nothing(tmp_path: Path, strategy: str) -> None:
    lines: list[str] = []
    saved = tmp_path / "model.safetensors"
    ran = simulated(written(tmp_path, TORCH), 2, strategy, "01", "inf", str(saved), show=lines.append)
    check_run(ran.to_json(), lines, saved, [0, 1], 2)


REAL = [
    ("allreduce", {}),
    ("allreduce", {"transport": "tcp"}),
    ("allreduce", {"transport": "torch"}),
    ("allreduce", {"compress": "topk(0.2)"}),
    ("ssp", {}),
    ("gossip", {}),
]


@pytest.mark.parametrize(("strategy", "options"), REAL)
def test_real_workers_go_on_without_it(tmp_path: Path, strategy: str, options: dict[str, str]) -> None:
    heard, saved = Heard(), tmp_path / "model.safetensors"
    ran = real(written(tmp_path, TORCH), 2, strategy, "1", "nan", saved, heard=heard, **options)
    check_run(ran.to_json(), heard.told, saved, [1], 2)


def test_real_workers_of_which_all_are_bad_keep_their_parameters(tmp_path: Path) -> None:
    heard, saved = Heard(), tmp_path / "model.safetensors"
    ran = real(written(tmp_path, TORCH), 2, "allreduce", "01", "inf", saved, heard=heard)
    check_run(ran.to_json(), heard.told, saved, [0, 1], 2)


@pytest.mark.parametrize("script", [ARRAYS, TORCH])
def test_one_worker_alone_leaves_its_step_out(tmp_path: Path, script: str) -> None:
    heard, saved = Heard(), tmp_path / "model.safetensors"
    ran = real(written(tmp_path, script), 1, None, "0", "nan", saved, heard=heard)
    check_run(ran.to_json(), heard.told, saved, [0], 1)


SCALED = """
import sys
import torch
import weft

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
worker = weft.join(model, optimizer)
for step in range(4):
    optimizer.zero_grad()
    worker.count(1)
    scaler.scale(model(torch.ones(1, 2) * (torch.inf if step == 2 else 1.0)).mean()).backward()
    scaler.step(optimizer)
    scaler.update()
print(scaler.get_scale(), worker.steps)
worker.save(sys.argv[1])
"""


@pytest.mark.parametrize("strategy", ["allreduce", "gossip"])
def test_a_gradient_scaler_finds_what_is_bad_on_all_workers_and_lowers_its_scale(tmp_path: Path, strategy: str) -> None:
    heard = Heard()
    real(written(tmp_path, SCALED), 2, strategy, tmp_path / "model.safetensors", heard=heard)
    assert sorted((rank, text) for rank, text, _ in heard.lines) == [(0, "2.0 3"), (1, "2.0 3")]


NEVER_FINITE = """
import numpy as np
import weft

w = np.full(2, np.nan)
worker = weft.join(arrays={"w": w}, optimizer=weft.SGD(lr=0.1))
worker.step({"w": np.zeros(2)}, samples=1)
worker.save("%s", allow_nan=%s)
"""


def test_what_is_not_finite_is_saved_only_if_that_is_allowed(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    for run in (simulated, real):
        with pytest.raises(CheckpointError, match="'w' has 2 numbers that are NaN or infinite"):
            run(written(tmp_path, NEVER_FINITE % (path, False)), 2)
        assert not path.exists()
        run(written(tmp_path, NEVER_FINITE % (path, True)), 2)
        assert np.isnan(load_file(path)["w"]).all()
        path.unlink()


SPOILT = """
import numpy as np
import weft

w = np.ones(2)
worker = weft.join(arrays={"w": w}, optimizer=weft.SGD(lr=1.0))
for rows in worker.share(20, batch_size=2):
    is_bad = worker.rank == 1 and worker.steps >= 2
    worker.step({"w": np.full(2, -1.7e308) if is_bad and np.isfinite(w).all() else w - 1.0})
"""


def test_parameters_that_others_would_mix_in_are_refused_by_name(tmp_path: Path) -> None:
    with np.errstate(all="ignore"), pytest.raises(NotFinite, match="parameter 'w' of worker 1 is not finite at step 4"):
        simulated(written(tmp_path, SPOILT), 2, "local_sgd(period=100)")
