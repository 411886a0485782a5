"""Several optimizers as one: who steps, on what, and with which numbers."""

import pytest
import torch
from torch import nn

from weft.adapters.torch.optimizers import Optimizers
from weft.core.errors import ConfigError


def two() -> tuple[Optimizers, list[nn.Parameter]]:
    parameters = [nn.Parameter(torch.zeros(1)) for _ in range(2)]
    optimizers = Optimizers()
    for number, parameter in enumerate(parameters):
        optimizers.add(torch.optim.SGD([parameter], lr=10.0**number))
        parameter.grad = torch.ones(1)
    return optimizers, parameters


def test_only_the_one_whose_turn_it_is_steps() -> None:
    optimizers, parameters = two()
    optimizers.stepping = 1
    optimizers.step()
    assert [float(parameter.detach()) for parameter in parameters] == [0.0, -10.0]


def test_a_gradient_from_elsewhere_moves_what_it_has_something_for() -> None:
    optimizers, parameters = two()
    parameters[1].grad = None
    optimizers.step_where_filled()
    assert [float(parameter.detach()) for parameter in parameters] == [-1.0, 0.0]


def test_numbers_are_those_of_all_groups_in_a_row_for_one_step_only() -> None:
    optimizers, parameters = two()
    optimizers.with_numbers([{"lr": 3.0}, {"lr": 4.0}], 0.5, optimizers.step_where_filled)
    assert [float(parameter.detach()) for parameter in parameters] == [-1.5, -2.0]
    assert [group["lr"] for group in optimizers.groups] == [1.0, 10.0]
    assert [group["lr"] for group in optimizers.hyper()] == [1.0, 10.0]


def test_every_parameter_has_an_owner() -> None:
    optimizers, parameters = two()
    assert [optimizers.owner(parameter) for parameter in parameters] == [0, 1]
    assert optimizers.has(parameters[1])
    assert not optimizers.has(nn.Parameter(torch.zeros(1)))


def test_one_without_a_learning_rate_cannot_be_scaled() -> None:
    optimizers, _ = two()
    del optimizers.groups[1]["lr"]
    with pytest.raises(ConfigError, match=r"this strategy scales the learning rate, which SGD has not\.\n  Use an"):
        optimizers.with_numbers(None, 0.5, optimizers.step)
