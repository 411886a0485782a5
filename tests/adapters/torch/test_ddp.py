"""The baseline: the same script under torch's own DistributedDataParallel."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from weft.adapters.torch import ddp
from weft.core.errors import ConfigError


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
    ddp.meet(store, 0, 1)
    yield model, ddp.Synchronised(model, 0, store, 0, 1).ddp
    ddp.leave()


@pytest.fixture
def of_two() -> Iterator[tuple[Model, ddp.Synchronised]]:
    """A group of one process that takes itself for worker 0 of two; worker 1's digests are in the store."""
    model = Model()
    store = ddp.open_store(0, 1)
    ddp.meet(store, 0, 1)
    synchronised = ddp.Synchronised(model, 0, store, 0, 1)
    synchronised._num_workers = 2
    for step in range(1, 9):
        store.set(f"{ddp.KEY}/0/{step}/1", "another")
    yield model, synchronised
    ddp.leave()


def watch(wrapped: DistributedDataParallel, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A line for every call that goes through DistributedDataParallel."""
    told: list[str] = []
    forward: Any = wrapped.forward

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
    assert torch.equal(model.layer.weight.grad, torch.full((1, 2), 6.0))  # type: ignore[arg-type]
    with torch.no_grad():
        model(inputs)
    assert (told, model.num_forwards) == (["ddp"], 2)


@pytest.mark.parametrize("hook", [ddp.FP16, ddp.POWERSGD])
def test_hooks_compress_gradients_on_their_way(hook: str) -> None:
    model, store = nn.Linear(64, 64), ddp.open_store(0, 1)
    ddp.meet(store, 0, 1)
    parallel = ddp.Synchronised(model, 0, store, 0, 1, hook).ddp
    inputs = torch.rand(8, 64)
    for _ in range(ddp.POWERSGD_START + 1):
        model.zero_grad()
        model(inputs).square().sum().backward()
    sent = model.weight.grad.clone()
    with parallel.no_sync():
        model.zero_grad()
        model(inputs).square().sum().backward()
    exact: Any = model.weight.grad
    ddp.leave()
    assert not torch.equal(sent, exact)
    if hook == ddp.FP16:
        torch.testing.assert_close(sent, exact, rtol=1e-2, atol=1e-2)
    else:
        assert torch.linalg.matrix_rank(sent, atol=1e-3) <= ddp.POWERSGD_RANK


def test_a_worker_that_evaluates_alone_goes_around_ddp_also_with_gradients_on(
    of_two: tuple[Model, ddp.Synchronised], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, synchronised = of_two
    told = watch(synchronised.ddp, monkeypatch)
    with synchronised.around():
        model(torch.zeros(1, 2))
    assert told == []
    model(torch.zeros(1, 2))
    assert told == ["ddp"]


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


def around(model: Model, inputs: torch.Tensor) -> None:
    model.layer(inputs).sum().backward()


def through_a_method_from_before(model: Model, inputs: torch.Tensor) -> None:
    Model.forward(model, inputs).sum().backward()


def twice_after_one_call(model: Model, inputs: torch.Tensor) -> None:
    loss = model(inputs).sum()
    loss.backward(retain_graph=True)
    loss.backward()


def only_a_part_of_it(model: Model, inputs: torch.Tensor) -> None:
    model(inputs)
    (inputs @ model.layer.weight.T).sum().backward()


@pytest.mark.parametrize("compute", [around, through_a_method_from_before, twice_after_one_call, only_a_part_of_it])
def test_a_step_on_gradients_that_ddp_did_not_average_is_refused(
    of_two: tuple[Model, ddp.Synchronised], compute: Callable[[Model, torch.Tensor], None]
) -> None:
    model, synchronised = of_two
    compute(model, torch.ones(3, 2))
    num = 1 if compute is only_a_part_of_it else 2
    with pytest.raises(ConfigError) as refused:
        synchronised.check(7)
    assert str(refused.value) == (
        "--baseline ddp: step 7 of worker 0 was made on gradients that DistributedDataParallel did not average, and "
        f"that differ between workers: those of {num} of 2 parameters, 'layer.weight' first.\n"
        "  It averages one backward after each call of the model: call model(...) before every backward, "
        "not model.encode(...), a submodule or a method from before weft.join; or leave --baseline out."
    )


def test_a_worker_that_alone_has_gradients_of_its_own_does_not_wait_long_for_the_others(
    of_two: tuple[Model, ddp.Synchronised], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ddp, "FIRST_COMPARISON", timedelta(seconds=0.1))
    model, synchronised = of_two
    around(model, torch.ones(3, 2))
    with pytest.raises(ConfigError) as refused:
        synchronised.check(9)
    assert str(refused.value) == (
        "--baseline ddp: worker 1 did not compare its gradients of step 9 with those of worker 0, some of which "
        "DistributedDataParallel did not average: those of 2 of 2 parameters, 'layer.weight' first.\n"
        "  It averages one backward after each call of the model: call model(...) before every backward, "
        "not model.encode(...), a submodule or a method from before weft.join; or leave --baseline out."
    )


def test_gradients_that_ddp_averages_at_last_or_that_are_gone_are_no_objection(
    of_two: tuple[Model, ddp.Synchronised],
) -> None:
    model, synchronised = of_two
    inputs = torch.ones(3, 2)
    model(inputs).sum().backward()
    synchronised.check(1)
    with synchronised.ddp.no_sync():
        model(inputs).sum().backward()
    model(inputs).sum().backward()
    synchronised.check(2)
    around(model, inputs)
    model.zero_grad()
    synchronised.check(3)
    model(inputs).sum().backward()
    model(inputs)
    synchronised.check(4)
    assert synchronised._compared is None, "there was nothing to compare"


def test_gradients_that_all_workers_have_alike_need_no_average() -> None:
    model, store = Model(), ddp.open_store(0, 1)
    ddp.meet(store, 0, 1)
    synchronised = ddp.Synchronised(model, 0, store, 0, 1)
    for step in (1, 2):
        model.layer.weight.square().sum().backward()
        synchronised.check(step)
    ddp.leave()
    assert not store.check([f"{ddp.KEY}/0/1/0"])
    assert store.check([f"{ddp.KEY}/0/2/0"])
