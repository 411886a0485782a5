"""The baseline: the same script under torch's own DistributedDataParallel."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from weft.adapters.torch import ddp


class Model(nn.Module):
    """Counts how often its own forward runs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 1)
        self.num_forwards = 0

    def forward(self, inputs: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        self.num_forwards += 1
        out: torch.Tensor = self.layer(inputs) * scale
        return out


@pytest.fixture
def wrapped() -> Iterator[tuple[Model, DistributedDataParallel]]:
    """A group of one process."""
    model = Model()
    store = ddp.open_store(0, 1)
    yield model, ddp.wrap(model, store, 0, 1)
    ddp.leave()


def watch(wrapped: DistributedDataParallel, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A line for every call that goes through DistributedDataParallel."""
    told: list[str] = []
    forward = wrapped.forward

    def watched(*args: Any, **kwargs: Any) -> Any:
        told.append("ddp")
        return forward(*args, **kwargs)

    monkeypatch.setattr(wrapped, "forward", watched)
    return told


def test_the_meeting_place_is_on_this_machine_only_at_a_free_port() -> None:
    store = ddp.open_store(0, 1)
    assert (store.host, store.port > 0) == ("127.0.0.1", True)


def test_the_models_own_calls_go_through_ddp_once_whenever_gradients_are_wanted(
    wrapped: tuple[Model, DistributedDataParallel], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, parallel = wrapped
    told = watch(parallel, monkeypatch)
    inputs = torch.ones(3, 2)
    out = model(inputs, scale=2.0)
    assert (told, model.num_forwards) == (["ddp"], 1)
    torch.testing.assert_close(out, model.layer(inputs) * 2)
    out.sum().backward()
    assert torch.equal(model.layer.weight.grad, torch.full((1, 2), 6.0))
    with torch.no_grad():
        model(inputs)
    assert (told, model.num_forwards) == (["ddp"], 2)


@pytest.mark.parametrize("hook", [ddp.FP16, ddp.POWERSGD])
def test_hooks_compress_gradients_on_their_way(hook: str) -> None:
    model = nn.Linear(64, 64)
    parallel = ddp.wrap(model, ddp.open_store(0, 1), 0, 1, hook)
    inputs = torch.rand(8, 64)
    for _ in range(ddp.POWERSGD_START + 1):
        model.zero_grad()
        model(inputs).square().sum().backward()
    sent = model.weight.grad.clone()
    with parallel.no_sync():
        model.zero_grad()
        model(inputs).square().sum().backward()
    exact = model.weight.grad
    ddp.leave()
    assert not torch.equal(sent, exact)
    if hook == ddp.FP16:
        torch.testing.assert_close(sent, exact, rtol=1e-2, atol=1e-2)
    else:
        assert torch.linalg.matrix_rank(sent, atol=1e-3) <= ddp.POWERSGD_RANK


def test_after_an_error_in_the_model_calls_go_through_ddp_again(
    wrapped: tuple[Model, DistributedDataParallel], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, parallel = wrapped
    told = watch(parallel, monkeypatch)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        model(torch.ones(3, 5))
    model(torch.ones(3, 2))
    assert told == ["ddp", "ddp"]


def test_the_group_is_gone_after_leaving(wrapped: tuple[Model, DistributedDataParallel]) -> None:
    assert dist.is_initialized()
    ddp.leave()
    assert not dist.is_initialized()
    dist.init_process_group("gloo", store=ddp.open_store(0, 1), rank=0, world_size=1)
