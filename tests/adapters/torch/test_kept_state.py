"""What a checkpoint has of a torch script comes back bit for bit."""

import random
from copy import deepcopy
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import nn

from weft.adapters.torch.kept_state import TYPES, TorchState, optimizer_state, take_optimizer_state
from weft.core.errors import CheckpointError


def state_of(model: nn.Module, *optimizers: torch.optim.Optimizer) -> TorchState:
    return TorchState(lambda: model, optimizers)


@pytest.mark.parametrize("kind", list(TYPES))
@pytest.mark.parametrize("shape", [(), (0, 2), (2, 3)])
def test_tensors_of_every_type_come_back(kind: torch.dtype, shape: tuple[int, ...]) -> None:
    state = state_of(nn.Linear(1, 1))
    tensor = (torch.arange(6.0)[: torch.Size(shape).numel()].reshape(shape) - 2).to(kind)
    packed = state.as_tensor(tensor)
    assert packed is not None
    back = state.to_tensor(packed)
    assert (back.dtype, back.shape, back.tolist()) == (kind, tensor.shape, tensor.tolist())
    assert state.as_tensor("text") is None
    assert state.as_tensor(torch.eye(2).to_sparse()) is None


def test_all_random_numbers_come_back_and_those_of_generators() -> None:
    state, generator = state_of(nn.Linear(1, 1)), torch.Generator().manual_seed(3)
    data: Any = torch.utils.data.DataLoader(cast(Any, [1, 2]), generator=generator)

    def draw() -> list[float]:
        drawn = [random.random(), random.gauss(0, 1), np.random.rand(), np.random.randn(), torch.rand(1).item()]
        return [*map(float, drawn), torch.rand(1, generator=generator).item()]

    random.gauss(0, 1)
    np.random.randn()
    before = state.random(data)
    first = draw()
    state.set_random(before, data)
    assert draw() == first
    states, again = state.generators(data), torch.rand(1, generator=generator)
    already: set[int] = set()
    state.set_generators(states, data, already)
    assert torch.equal(torch.rand(1, generator=generator), again)
    state.set_generators(states, data, already)
    assert not torch.equal(torch.rand(1, generator=generator), again)


def test_groups_stay_the_same_objects_and_others_are_refused() -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    state = state_of(model, optimizer)
    optimizers, group = state.optimizers(), optimizer.param_groups[0]
    group["lr"] = 7.0
    with torch.no_grad():
        model.weight.zero_()
    kept = {name: tensor.clone() + 1 for name, tensor in state.model().items()}
    state.load(kept, optimizers)
    assert (optimizer.param_groups[0] is group, group["lr"]) == (True, 0.1)
    assert model.weight.tolist() == [[1.0, 1.0]]
    groups: Any = [{"params": [model.weight]}, {"params": [model.bias]}]
    other = torch.optim.SGD(groups, lr=0.1)
    with pytest.raises(CheckpointError, match="the groups of parameters of SGD are not those of the checkpoint"):
        state_of(model, other).load(kept, optimizers)


def test_a_model_that_is_not_finite_is_not_kept() -> None:
    model = nn.Linear(1, 1)
    with torch.no_grad():
        model.bias.fill_(float("nan"))
    with pytest.raises(CheckpointError, match="'bias' has 1 numbers that are NaN or infinite"):
        state_of(model).check_finite()


def trained(lr: float = 0.1, num_steps: int = 0) -> tuple[nn.Linear, torch.optim.Optimizer]:
    """A model whose weights begin as zeros, after some steps with equal gradients."""
    model = nn.Linear(2, 1)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.5)
    step(model, optimizer, num_steps)
    return model, optimizer


def step(model: nn.Module, optimizer: torch.optim.Optimizer, num_steps: int = 1) -> None:
    for _ in range(num_steps):
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()


def test_a_newcomers_optimizer_goes_on_with_its_sponsors_numbers_and_state_in_the_same_groups() -> None:
    (theirs, sponsor), (mine, optimizer) = trained(0.25, 3), trained()
    group = optimizer.param_groups[0]
    take_optimizer_state(optimizer, deepcopy(optimizer_state(sponsor, with_state=True)))
    assert optimizer.param_groups[0] is group
    assert (group["lr"], group["momentum"]) == (0.25, 0.5)
    assert group["params"][0] is mine.weight
    mine.load_state_dict(theirs.state_dict())
    before = mine.weight.clone()
    step(theirs, sponsor)
    step(mine, optimizer)
    assert torch.equal(mine.weight, theirs.weight)
    assert not torch.equal(mine.weight, before)


def test_without_state_a_newcomers_optimizer_takes_the_numbers_and_begins_its_state_anew() -> None:
    (_, sponsor), (mine, optimizer) = trained(0.25, 3), trained()
    handed = optimizer_state(sponsor, with_state=False)
    assert "state" not in handed
    assert "params" not in handed["param_groups"][0]
    take_optimizer_state(optimizer, handed)
    group = optimizer.param_groups[0]
    assert (group["lr"], group["params"][0] is mine.weight, len(optimizer.state)) == (0.25, True, 0)
    step(mine, optimizer)
    assert mine.bias.tolist() == [-0.25], "without momentum of earlier steps"


@pytest.mark.parametrize("with_state", [True, False])
def test_what_a_scheduler_has_written_into_the_groups_is_handed_over(with_state: bool) -> None:
    (_, sponsor), (_, optimizer) = trained(0.25), trained()
    scheduler = torch.optim.lr_scheduler.StepLR(sponsor, 1, 0.5)
    sponsor.step()
    scheduler.step()
    take_optimizer_state(optimizer, optimizer_state(sponsor, with_state=with_state))
    assert (optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["initial_lr"]) == (0.125, 0.25)
