"""A model that is elsewhere: its parameters stay there, and training gives what it gives on the host."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.devices.late_streams import PromptStream
from support.processes.real import real
from torch import nn

from weft.adapters.torch import join
from weft.adapters.torch.device_replica import DeviceReplica, is_elsewhere
from weft.core.errors import ConfigError
from weft.core.names import GRADIENT, PARAMS, Bucket
from weft.core.seat import ReplicaMemory
from weft.transports import torch_distributed


def made() -> Any:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Linear(5, 2))
    return DeviceReplica(model, torch.optim.SGD(model.parameters(), lr=0.5))


def on_device(buckets: tuple[Bucket, ...]) -> ReplicaMemory:
    """Gradients in tensors, as a device has them."""
    params = [np.zeros(bucket.num_elements, f"f{bucket.itemsize}") for bucket in buckets]
    given, seen = ([torch.zeros(b.num_elements) for b in buckets if b.trainable] for _ in range(2))
    return ReplicaMemory(params, given, seen)


def test_parameters_stay_where_they_are_and_gradients_are_tensors_there() -> None:
    replica = made()
    before = [parameter.data_ptr() for parameter in replica.model.parameters()]
    replica.settle(None, on_device)
    assert [parameter.data_ptr() for parameter in replica.model.parameters()] == before
    replica.model(torch.randn(4, 3)).sum().backward()
    replica.give()
    assert isinstance(replica.array(GRADIENT, 0), torch.Tensor)
    given = replica._arrays["given"][0]
    assert given[:2].tolist() == replica.model[2].bias.grad.tolist()
    replica.array(GRADIENT, 0).copy_(given)
    replica.expose()
    assert all(place.parameter.grad is place.seen for place in replica.trained)
    values = replica.model[2].bias.detach().clone()
    replica.apply({0: replica.array(GRADIENT, 0)}, 1.0, None)
    assert torch.equal(replica.model[2].bias, values - 0.5 * replica.model[2].bias.grad)


def test_what_workers_begin_with_is_written_back() -> None:
    replica, other = made(), made()
    with torch.no_grad():
        for parameter in other.model.parameters():
            parameter.fill_(7.0)
        other.model[1].running_mean.fill_(3.0)
    values = replica.values()
    for mine, theirs in zip(values, other.values(), strict=True):
        mine[...] = theirs
    assert not (replica.model[0].weight == 7).any(), "they are copies"
    replica.begin_with(values)
    assert all((parameter == 7).all() for parameter in replica.model.parameters())
    assert (replica.model[1].running_mean == 3).all()


def test_means_of_batches_are_mirrored_on_the_host_and_brought_back() -> None:
    replica = made()
    replica.settle(None, on_device)
    replica.model[1].running_var.fill_(4.0)
    mirror = replica.array(PARAMS, 1)
    assert 4.0 not in mirror
    replica.pull()
    assert mirror[16:21].tolist() == [4.0] * 5
    mirror[16:21] = 6.0
    replica.push()
    assert (replica.model[1].running_var == 6).all()


def test_workers_on_devices_and_on_the_host_have_different_layouts() -> None:
    assert made().layout()[0] == "0.weight (5, 3) torch.float32 on cpu"
    assert (made().device, made().shares_update) == ("cpu", False)


def test_all_of_a_model_is_in_one_place() -> None:
    model = nn.Sequential(nn.Linear(1, 1, device="meta"), nn.Linear(1, 1))
    assert is_elsewhere(model)
    assert not is_elsewhere(model[1])
    with pytest.raises(ConfigError, match=r"has a tensor of torch.float32 on 'cpu', .*\n.* all on one GPU"):
        DeviceReplica(model, torch.optim.SGD(model.parameters(), lr=0.1))


SCRIPT = """
import sys
import torch
import weft
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(48, 6, dtype=torch.float64), torch.randint(0, 3, (48,)))
loader = DataLoader(data, batch_size=4)
torch.manual_seed(weft.core.seat.current().rank)  # workers begin with worker 0's values
model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3)).double()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
worker = weft.join(model, optimizer)
for epoch in worker.epochs(3):
    for inputs, labels in worker.share(loader):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    worker.report(weight=lambda: float(model[0].weight.detach().sum()))
torch.save(model.state_dict(), f"{sys.argv[1]}/{worker.rank}.pt")
worker.save(f"{sys.argv[1]}/model.safetensors")
"""


def test_a_model_elsewhere_learns_what_one_on_the_host_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from safetensors.torch import load_file

    (tmp_path / "train.py").write_text(SCRIPT)
    real(tmp_path / "train.py", 3, None, tmp_path)
    on_host = torch.load(tmp_path / "0.pt", weights_only=True)
    monkeypatch.setattr(join, "is_elsewhere", lambda model: True)
    monkeypatch.setattr(torch_distributed, "CudaStream", PromptStream)
    monkeypatch.setattr(torch_distributed, "nccl_group", lambda device, *args: torch_distributed.gloo_group(*args))
    real(tmp_path / "train.py", 3, None, tmp_path, transport="torch")
    for rank in range(3):
        ended = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        for name, value in on_host.items():
            torch.testing.assert_close(ended[name], value, rtol=1e-9, atol=1e-9)
    assert torch.equal(load_file(tmp_path / "model.safetensors")["0.weight"], ended["0.weight"])


@pytest.mark.parametrize(
    "options", [{"transport": "shm"}, {"transport": "torch", "strategy": "gossip"}, {"transport": "tcp"}]
)
def test_a_model_elsewhere_needs_torch_to_sum_and_a_strategy_that_does_nothing_else(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    monkeypatch.setattr(join, "is_elsewhere", lambda model: True)
    monkeypatch.setattr(torch_distributed, "CudaStream", PromptStream)
    strategy = options.pop("strategy", None)
    with pytest.raises(ConfigError) as refused:
        real(tmp_path / "train.py", 2, strategy, tmp_path, **options)
    assert str(refused.value) == (
        "the model is on 'cpu', where its gradients can be summed but nothing else can be shared.\n"
        "  Use --transport torch with a strategy like allreduce and no codec, or keep the model on the CPU."
    )
