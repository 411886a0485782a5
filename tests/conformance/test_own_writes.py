"""What a script writes to its parameters between steps counts under every strategy, or is refused by name."""

from pathlib import Path

import pytest
from safetensors.numpy import load_file
from support.processes.real import real
from support.scripts.training_scripts import simulated, write

from weft.config.registry import STRATEGIES
from weft.config.registry import strategy as strategy_of
from weft.core.errors import ConfigError

TORCH = """
import sys
import torch
import weft
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(64, 4), torch.randint(0, 3, (64,))
loader = DataLoader(TensorDataset(x, y), batch_size=4)
model = nn.Linear(4, 3)
torch.nn.init.zeros_(model.weight)
torch.nn.init.zeros_(model.bias)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-12)
worker = weft.join(model, optimizer)
worker.tune(lr=(1e-13, 1e-12))
for epoch in worker.epochs(3):
    for inputs, labels in worker.share(loader):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        if worker.steps == 2:
            WRITE
worker.save(sys.argv[1])
"""
ARRAYS = """
import sys
import numpy as np
import weft

w = np.zeros(3)
worker = weft.join(arrays={"w": w}, optimizer=weft.SGD(lr=1e-12))
worker.tune(lr=(1e-13, 1e-12))
for epoch in worker.epochs(3):
    for rows in worker.share(64, batch_size=4):
        worker.step({"w": np.ones(3)})
        if worker.steps == 2:
            w += 1.0
worker.save(sys.argv[1])
"""
IN_PLACE = "torch._foreach_add_([p.detach() for p in model.parameters()], 1.0)"
DATA = "model.weight.data.add_(1.0); model.bias.data += 1.0"
REPLACED = "model.weight.data, model.bias.data = model.weight.data + 1, model.bias.data + 1"
LOADED = "model.load_state_dict({n: t + 1 for n, t in model.state_dict().items()})"
WRITES = {"in place": IN_PLACE, "to data": DATA, "replaced data": REPLACED, "loaded state": LOADED}


def script(folder: Path, text: str, write_so: str = IN_PLACE) -> Path:
    return write(folder, text.replace("WRITE", write_so))


def final(strategy: str) -> float:
    """What 1 that all workers have added becomes: an elastic centre is on its way there."""
    return 0.9 if strategy == "easgd" else 1.0


@pytest.mark.parametrize("text", [TORCH, ARRAYS], ids=["torch", "arrays"])
@pytest.mark.parametrize("strategy", sorted(set(STRATEGIES) - {"hogwild"}))
def test_a_write_that_all_workers_make_is_the_new_value_or_refused(strategy: str, text: str, tmp_path: Path) -> None:
    path, saved = script(tmp_path, text), tmp_path / "model.safetensors"
    if strategy_of(strategy).keeps_writes:
        simulated(path, 4, strategy, str(saved))
        assert all(values == pytest.approx(final(strategy), abs=1e-6) for values in load_file(saved).values())
    else:
        with pytest.raises(ConfigError, match=f"between two steps, but under '{strategy}' parameters come from"):
            simulated(path, 4, strategy, str(saved))


def test_each_write_to_a_replica_that_all_share_counts(tmp_path: Path) -> None:
    saved = tmp_path / "model.safetensors"
    real(script(tmp_path, ARRAYS), 2, "hogwild", saved)
    assert load_file(saved)["w"] == pytest.approx(2.0, abs=1e-6)


@pytest.mark.parametrize("write_so", [REPLACED, IN_PLACE])
@pytest.mark.parametrize("text", [TORCH, ARRAYS], ids=["torch", "arrays"])
def test_a_write_after_the_last_step_is_saved(text: str, write_so: str, tmp_path: Path) -> None:
    last = f"{write_so}\nworker.save" if text is TORCH else "w += 1.0\nworker.save"
    saved = tmp_path / "model.safetensors"
    path = write(
        tmp_path, text.replace("worker.steps == 2", "False").replace("WRITE", "pass").replace("worker.save", last)
    )
    simulated(path, 2, "gossip", str(saved))
    assert all(values == pytest.approx(1.0, abs=1e-6) for values in load_file(saved).values())


@pytest.mark.parametrize("how", WRITES)
@pytest.mark.parametrize("strategy", ["allreduce", "gossip", "async_gossip", "push_sum"])
def test_real_workers_keep_it_however_it_is_made(strategy: str, how: str, tmp_path: Path) -> None:
    saved = tmp_path / "model.safetensors"
    real(script(tmp_path, TORCH, WRITES[how]), 2, strategy, saved)
    assert all(values == pytest.approx(1.0, abs=1e-6) for values in load_file(saved).values())


@pytest.mark.parametrize("how", WRITES)
def test_real_workers_refuse_it_where_parameters_come_from_servers(how: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="between two steps, but under 'ssp' parameters come from elsewhere"):
        real(script(tmp_path, TORCH, WRITES[how]), 2, "ssp", tmp_path / "model.safetensors")


def test_real_workers_refuse_what_only_one_of_them_writes_to_parameters_that_all_share(tmp_path: Path) -> None:
    path = script(tmp_path, TORCH.replace("if worker.steps == 2", "if worker.steps == 2 and worker.rank"))
    with pytest.raises(ConfigError, match=r"worker 1 has written to '(weight|bias)' between two steps what other"):
        real(path, 2, "allreduce", tmp_path / "model.safetensors")
