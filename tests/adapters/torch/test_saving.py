"""What of a torch model may be saved."""

from typing import Any

import pytest
import torch
from torch import nn

from weft.adapters.torch.saving import check_finite
from weft.core.errors import CheckpointError


class Masked(nn.Module):
    """A layer with a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.register_buffer("mask", torch.full((2, 2), -torch.inf))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))


def check(model: nn.Module, *prefixes: str) -> None:
    tensors = {prefix + name: value for prefix in prefixes for name, value in model.state_dict().items()}
    check_finite("model.safetensors", tensors, model, prefixes)


def test_masks_may_be_infinite_but_not_nan() -> None:
    model: Any = Masked()
    check(model, "")
    model.mask[0, 0] = torch.nan
    with pytest.raises(CheckpointError, match="'mask' has 1 numbers"):
        check(model, "")


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_parameter_that_is_not_finite_is_refused_by_name(bad: float) -> None:
    model = Masked()
    with torch.no_grad():
        model.layer.weight[1] = bad
    with pytest.raises(CheckpointError) as refused:
        check(model, "member0.", "member1.")
    assert str(refused.value) == (
        "'model.safetensors' is not saved: 'member0.layer.weight' has 2 numbers that are NaN or infinite.\n"
        "  Lower the learning rate if training has diverged; worker.save(..., allow_nan=True) saves it as it is."
    )
