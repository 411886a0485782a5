"""Torch loaders and datasets under every way to share data: each sample once an epoch, with and without processes."""

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo  # here, once: every forked worker would take seconds for it
from support.processes.real import real
from support.scripts.training_scripts import simulated, write
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from weft.adapters.torch.plain_model import PlainModel
from weft.adapters.torch.worker import TorchWorker
from weft.sim.script import ScriptSeat
from weft.sim.shares import VirtualShares

pytestmark = pytest.mark.slow

NUM_WORKERS, NUM_SAMPLES, NUM_EPOCHS = 3, 130, 2

SCRIPT = """
import sys, time
import torch
import torch._dynamo  # here, once: every forked worker would take seconds for it
import weft
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

folder, way = sys.argv[1:]
torch.manual_seed(0)
data = TensorDataset(torch.arange(130, dtype=torch.float64).reshape(-1, 1))
model = nn.Linear(1, 1, bias=False).double()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
worker = weft.join(model, optimizer)
loader = DataLoader(data, batch_size=4, shuffle=True, num_workers=2 if way == "processes" else 0)
sample_s = (16e-3, 4e-3, 2e-3)[worker.rank]
seen, steps = [], []
for epoch in worker.epochs(2):
    mine, before = [], worker.steps
    for (x,) in worker.share(data, batch_size=4) if way == "dataset" else worker.share(loader):
        time.sleep(sample_s * len(x))
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        mine += x.flatten().int().tolist()
    seen.append(mine)
    steps.append(worker.steps - before)
torch.save({"seen": seen, "steps": steps, "samples": worker._samples}, f"{folder}/{worker.rank}.pt")
"""


def workers(folder: Path) -> list[dict[str, Any]]:
    """What each worker saw."""
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(NUM_WORKERS)]


def assert_each_sample_once(folder: Path, share: str) -> None:
    told = workers(folder)
    for epoch in range(NUM_EPOCHS):
        seen = sorted(sample for each in told for sample in each["seen"][epoch])
        assert seen == list(range(NUM_SAMPLES))
    if share == "proportional":
        assert [each["steps"] for each in told] == [[11, 11]] * NUM_WORKERS
    else:
        assert [sum(each["steps"][epoch] for each in told) for epoch in range(NUM_EPOCHS)] == [33, 33]
    assert [each["samples"] for each in told] == [None] * NUM_WORKERS, "all were counted in a step"


@pytest.mark.parametrize("way", ["loader", "processes", "dataset"])
@pytest.mark.parametrize(("share", "strategy"), [("proportional", "allreduce"), ("stealing", "async_gossip")])
def test_real_workers_read_each_sample_once_per_epoch(tmp_path: Path, share: str, strategy: str, way: str) -> None:
    real(write(tmp_path, SCRIPT), NUM_WORKERS, strategy, tmp_path, way, share=share)
    assert_each_sample_once(tmp_path, share)
    told = workers(tmp_path)
    if way != "processes":  # which may take longer to start than all the rest
        assert len(told[2]["seen"][1]) > len(told[0]["seen"][1])


class Told(ScriptSeat):
    """A seat that is told unequal parts, others in every block, or steals from a queue."""

    is_simulated = False

    def fractions(self, share: int, num_samples: int, block: int) -> Sequence[float]:
        return (0.1, 0.2, 0.7) if (share + block) % 2 else (0.6, 0.3, 0.1)


@pytest.mark.processes
@pytest.mark.parametrize("num_processes", [0, 2])
@pytest.mark.parametrize("share", ["proportional", "stealing"])
def test_a_loader_that_reads_ahead_reads_each_sample_once_though_parts_change(share: str, num_processes: int) -> None:
    shares = VirtualShares(NUM_WORKERS, share, every=2)
    data = TensorDataset(torch.arange(NUM_SAMPLES))
    loader = DataLoader(data, batch_size=4, shuffle=True, num_workers=num_processes)
    seats = [Told(rank, NUM_WORKERS, 0, None, {}, shares) for rank in range(NUM_WORKERS)]
    joined = [TorchWorker(seat, PlainModel(nn.Linear(1, 1))) for seat in seats]
    seen, sizes = [], []
    for batches in zip_longest(*(worker.share(loader) for worker in joined)):
        taken = [batch[0].tolist() for batch in batches if batch is not None]
        seen += [sample for each in taken for sample in each]
        sizes.append([len(each) for each in taken])
    assert sorted(seen) == list(range(NUM_SAMPLES))
    assert len(sizes) == 11
    assert (len({tuple(each) for each in sizes[:8]}) == 2) == (share == "proportional")


@pytest.mark.parametrize("way", ["loader", "processes", "dataset"])
@pytest.mark.parametrize(("share", "strategy"), [("proportional", "allreduce"), ("stealing", "async_gossip")])
def test_simulated_workers_read_each_sample_once_per_epoch(tmp_path: Path, share: str, strategy: str, way: str) -> None:
    simulated(write(tmp_path, SCRIPT), NUM_WORKERS, strategy, str(tmp_path), way, cluster="edge", share=share)
    assert_each_sample_once(tmp_path, share)


def test_gradients_of_stolen_portions_may_be_added_up(tmp_path: Path) -> None:
    script = (
        SCRIPT.replace(
            """        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        mine += x.flatten().int().tolist()
""",
            """        mine += x.flatten().int().tolist()
        if len(mine) % 8:
            with worker.accumulate():
                model(x).square().mean().backward()
            continue
        model(x).square().mean().backward()
        assert worker._samples == 8, worker._samples
        optimizer.step()
        optimizer.zero_grad()
""",
        )
        .replace("range(130)", "range(128)")
        .replace("arange(130", "arange(128")
    )
    simulated(write(tmp_path, script), NUM_WORKERS, "async_gossip", str(tmp_path), "loader", share="stealing")
    assert sorted(sample for each in workers(tmp_path) for sample in each["seen"][1]) == list(range(128))
