"""What a script may not change after joining, and what is taken home."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from weft.adapters.torch.replica import TorchReplica
from weft.core.errors import ConfigError
from weft.core.names import PARAMS


def settled() -> tuple[TorchReplica, Any, torch.optim.Optimizer]:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    replica = TorchReplica(model, optimizer)
    replica.settle()
    return replica, model, optimizer


def replace_data(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.data = torch.full_like(parameter, 7.0)


def write_a_vector(model: nn.Module) -> None:
    vector_to_parameters(torch.full_like(parameters_to_vector(model.parameters()), 7.0), model.parameters())


def convert_there_and_back(model: nn.Module) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(7.0)
    model.double().float()


@pytest.mark.parametrize("write", [replace_data, write_a_vector, convert_there_and_back])
def test_parameters_whose_memory_was_replaced_count_and_live_in_their_bucket_again(
    write: Callable[[nn.Module], None],
) -> None:
    replica, model, _ = settled()
    write(model)
    replica.unchanged.check()
    memory = replica.array(PARAMS, 0)
    assert all((parameter == 7).all() for parameter in model.parameters())
    memory[:] = 3.0
    assert all((parameter == 3).all() for parameter in model.parameters()), "they are views of the bucket"


def test_another_type_or_shape_is_refused_by_name() -> None:
    replica, model, _ = settled()
    model.double()
    with pytest.raises(ConfigError) as refused:
        replica.unchanged.check()
    assert str(refused.value) == (
        "'1.running_mean' became a (2,) of torch.float64 on 'cpu' after weft.join, but workers share a (2,) of "
        "torch.float32.\n  Convert the model before it joins."
    )


def test_other_modules_and_parameters_are_refused_by_name() -> None:
    expected = (
        "the module '{}' got other parameters or parts after weft.join, which workers do not share.\n"
        "  Change the model before it joins; write to parameters with parameter.copy_(...) under torch.no_grad()."
    )
    replica, model, _ = settled()
    model[0] = nn.Linear(2, 2)
    with pytest.raises(ConfigError) as refused:
        replica.unchanged.check()
    assert str(refused.value) == expected.format("Sequential")
    replica, model, _ = settled()
    model[0].weight = nn.Parameter(torch.zeros(2, 2))
    with pytest.raises(ConfigError) as refused:
        replica.unchanged.check()
    assert str(refused.value) == expected.format("0")


def test_buffers_that_are_replaced_in_every_step_are_refused_and_written_ones_are_not() -> None:
    replica, model, _ = settled()
    home = model[1].running_mean
    home.add_(1.0)
    replica.unchanged.check()
    model[1].running_mean = home + 1.0
    replica.unchanged.check()
    assert model[1].running_mean is home
    assert home.tolist() == [2.0, 2.0]
    model[1].running_mean = home + 1.0
    with pytest.raises(ConfigError) as refused:
        replica.unchanged.check()
    assert str(refused.value) == (
        "the buffer '1.running_mean' is replaced again and again, so workers would not share it.\n"
        "  Write to it in place: buffer.copy_(...), buffer.mul_(...) or buffer.add_(...)."
    )


def test_groups_that_are_added_later_are_refused() -> None:
    replica, _, optimizer = settled()
    optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(1))]})
    with pytest.raises(ConfigError) as refused:
        replica.unchanged.check()
    assert str(refused.value) == (
        "the optimizer got other groups of parameters after weft.join, which workers do not share.\n"
        "  Add all groups before weft.join."
    )
