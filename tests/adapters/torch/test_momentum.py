"""Momentum that a codec takes over from torch's SGD."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam, Optimizer

from weft.adapters.torch.momentum import check_no_momentum, taken_momentum
from weft.core.errors import ConfigError


def parameters() -> list[nn.Parameter]:
    return [nn.Parameter(torch.zeros(2)) for _ in range(2)]


@pytest.mark.parametrize("momentum", [0.9, 0.0])
def test_the_optimizer_goes_on_without_it(momentum: float) -> None:
    optimizer = SGD(parameters(), lr=0.1, momentum=momentum)
    assert taken_momentum(optimizer) == momentum
    assert [group["momentum"] for group in optimizer.param_groups] == [0.0]


@pytest.mark.parametrize(
    ("optimizer", "name"),
    [
        (Adam(parameters()), "Adam"),
        (SGD(parameters(), lr=0.1, momentum=0.9, nesterov=True), "SGD with nesterov or dampening"),
        (SGD(parameters(), lr=0.1, momentum=0.9, dampening=0.5), "SGD with nesterov or dampening"),
    ],
)
def test_other_optimizers_are_refused_with_what_to_use(optimizer: Optimizer, name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        taken_momentum(optimizer)
    assert str(refused.value) == (
        f"'dgc' takes over the momentum of torch.optim.SGD, but the optimizer is {name}.\n"
        "  Use torch.optim.SGD(..., momentum=0.9), or 'topk(0.001)', which goes with every optimizer."
    )


def test_groups_of_different_momentum_are_refused_and_left_as_they_are() -> None:
    one, other = parameters()
    groups: list[dict[str, Any]] = [{"params": [one], "momentum": 0.5}, {"params": [other]}]
    optimizer = SGD(groups, lr=0.1, momentum=0.9)
    with pytest.raises(ConfigError) as refused:
        taken_momentum(optimizer)
    assert str(refused.value) == (
        "'dgc' takes over one momentum, but the optimizer's groups have [0.5, 0.9].\n"
        "  Give all groups the same, or use 'topk(0.001)'."
    )
    assert [group["momentum"] for group in optimizer.param_groups] == [0.5, 0.9]


def test_a_scheduler_that_gives_it_back_is_refused() -> None:
    optimizer = SGD(parameters(), lr=0.1, momentum=0.9)
    taken_momentum(optimizer)
    check_no_momentum(optimizer)
    torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=10)
    with pytest.raises(ConfigError, match="'dgc' has taken over the momentum, but the optimizer has one again"):
        check_no_momentum(optimizer)
