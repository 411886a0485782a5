"""A plain loop's steps on gradients that are not finite."""

import pytest
import torch
from torch import Tensor, nn

from weft.adapters.torch.plain import FiniteSteps, bad_gradient


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))


def train(made: nn.Module, leaves_out: bool | None, num_steps: int = 3) -> list[str]:
    """Adam's steps, one of which has a bad input; what was told."""
    told: list[str] = []

    def leave_out(tensor: str) -> bool:
        told.append(tensor)
        return bool(leaves_out)

    optimizer = torch.optim.Adam(made.parameters(), weight_decay=0.1)
    steps = FiniteSteps(made, optimizer, None if leaves_out is None else leave_out)
    for step in range(num_steps):
        optimizer.zero_grad()
        inputs = torch.arange(8.0).reshape(4, 2)
        made(inputs * torch.nan if step == 1 else inputs).square().mean().backward()
        with steps.step():
            optimizer.step()
        if step == 1 and leaves_out:
            assert bad_gradient(made.named_parameters()) == "0.weight", "the script finds its gradients as they were"
    return told


def values(made: nn.Module) -> list[Tensor]:
    return [value for value in made.state_dict().values() if value.is_floating_point()]


def test_a_step_that_is_left_out_leaves_parameters_momenta_and_means_as_they_were() -> None:
    left_out, never_made = model(), model()
    assert train(left_out, leaves_out=True) == ["0.weight"]
    optimizer = torch.optim.Adam(never_made.parameters(), weight_decay=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        never_made(torch.arange(8.0).reshape(4, 2)).square().mean().backward()
        optimizer.step()
    for mine, wanted in zip(values(left_out), values(never_made), strict=True):
        assert torch.equal(mine, wanted)


@pytest.mark.parametrize("leaves_out", [None, False])
def test_a_seat_that_does_not_leave_out_changes_nothing_about_a_loop(leaves_out: bool | None) -> None:
    made = model()
    train(made, leaves_out)
    assert not any(value.isfinite().all() for value in made.parameters())


def test_gradients_of_every_kind_are_looked_at() -> None:
    layers = nn.ModuleDict({"layer": nn.Linear(2, 2).bfloat16(), "words": nn.Embedding(4, 2, sparse=True)})
    assert bad_gradient(layers.named_parameters()) is None
    layers["layer"].weight.grad = torch.ones(2, 2, dtype=torch.bfloat16)
    layers["layer"].bias.grad = torch.ones(4)[::2].bfloat16()
    layers["words"](torch.tensor([1, 1])).sum().backward()
    assert bad_gradient(layers.named_parameters()) is None
    layers["words"](torch.tensor([2])).mul(torch.inf).sum().backward()
    assert bad_gradient(layers.named_parameters()) == "words.weight"
    layers["layer"].weight.grad[0, 0] = torch.nan
    assert bad_gradient(layers.named_parameters()) == "layer.weight"
