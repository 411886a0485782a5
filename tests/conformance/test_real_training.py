"""Real workers do the maths: all-reduce equals the union batch, all workers agree, and so does the simulator."""

from pathlib import Path
from typing import Any

import pytest
import torch
from support.processes.real import real
from support.scripts.training_scripts import simulated
from torch import nn

from weft.data.static import global_batches

NUM_WORKERS = 4
NUM_SAMPLES, BATCH_SIZE = 100, 3

SCRIPT = """
import sys
import torch
import weft
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

name, kind, steps, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
dtype = getattr(torch, kind)
torch.manual_seed(0)
x, y = torch.randn(100, 6, dtype=dtype), torch.randint(0, 4, (100,))
loader = DataLoader(TensorDataset(x, y), batch_size=3)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 4)).to(dtype)
options = {"lr": 0.02, "momentum": 0.9} if name == "momentum" else {"lr": 0.02}
optimizer = getattr(torch.optim, "SGD" if name == "momentum" else name)(model.parameters(), **options)
worker = weft.join(model, optimizer)
while worker.steps < steps:
    for inputs, labels in worker.share(loader):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        if worker.steps == steps:
            break
if folder != "-":
    torch.save(model.state_dict(), f"{folder}/{worker.rank}.pt")
"""
OPTIMIZERS = ["SGD", "momentum", "Adam", "AdamW", "RMSprop", "Adagrad"]


def on_the_union_batch(name: str, dtype: torch.dtype, steps: int) -> dict[str, torch.Tensor]:
    """One worker alone, on the batches that the workers have together."""
    torch.manual_seed(0)
    x, y = torch.randn(NUM_SAMPLES, 6, dtype=dtype), torch.randint(0, 4, (NUM_SAMPLES,))
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 4)).to(dtype)
    options = {"lr": 0.02, "momentum": 0.9} if name == "momentum" else {"lr": 0.02}
    optimizer = getattr(torch.optim, "SGD" if name == "momentum" else name)(model.parameters(), **options)
    spans = global_batches(NUM_SAMPLES, NUM_WORKERS, BATCH_SIZE)
    for step in range(steps):
        start, stop = spans[step % len(spans)]
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[start:stop]), y[start:stop]).backward()
        optimizer.step()
    return model.state_dict()


@pytest.mark.parametrize(("kind", "steps", "tolerance"), [("float64", 60, 1e-9), ("float32", 20, 1e-6)])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_allreduce_equals_the_union_batch_and_all_workers_and_the_simulator_have_the_same_bits(
    name: str, kind: str, steps: int, tolerance: float, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    real(script, NUM_WORKERS, "allreduce", name, kind, steps, tmp_path)
    first, *others = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(NUM_WORKERS)]
    for tensor, value in first.items():
        assert all(torch.equal(value, other[tensor]) for other in others)
    for tensor, value in on_the_union_batch(name, getattr(torch, kind), steps).items():
        torch.testing.assert_close(first[tensor], value, rtol=tolerance, atol=tolerance)
    outcome = simulated(script, NUM_WORKERS, "allreduce", name, kind, str(steps), "-")
    model = outcome.replicas[0].model
    assert all(torch.equal(first[tensor], value) for tensor, value in model.state_dict().items())


@pytest.mark.parametrize("name", ["momentum", "Adam"])
@pytest.mark.parametrize("where", [{"transport": "torch"}, {"hosts": (0, 0, 0, 1)}], ids=str)
def test_torch_distributed_and_several_hosts_give_the_union_batch_and_all_workers_the_same_bits(
    name: str, where: dict[str, Any], tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    real(script, NUM_WORKERS, "allreduce", name, "float64", 40, tmp_path, **where)
    first, *others = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(NUM_WORKERS)]
    for tensor, value in first.items():
        assert all(torch.equal(value, other[tensor]) for other in others)
    for tensor, value in on_the_union_batch(name, torch.float64, 40).items():
        torch.testing.assert_close(first[tensor], value, rtol=1e-9, atol=1e-9)
