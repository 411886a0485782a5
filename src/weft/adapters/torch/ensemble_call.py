"""Lets a model predict as an ensemble: every call runs it once for each member, and returns the mean."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

import torch
from torch import nn

from weft.core.errors import ConfigError


@contextmanager
def predicting_together(model: nn.Module, members: Sequence[Callable[[], None]]) -> Iterator[None]:
    """A context in which `model` predicts the mean of `members`, each of which copies its values into the model."""
    forward, had_its_own = model.forward, "forward" in vars(model)
    is_inside = False

    def mean_forward(*args: Any, **kwargs: Any) -> Any:
        nonlocal is_inside
        if is_inside:  # a forward that calls its own model goes on as the same member
            return forward(*args, **kwargs)
        is_inside = True
        outputs = []
        try:
            for put_in in members:
                put_in()
                outputs.append(forward(*args, **kwargs))
        finally:
            is_inside = False
        return mean_of(outputs)

    model.forward = mean_forward
    try:
        yield
    finally:
        if had_its_own:
            model.forward = forward
        else:
            del model.forward


def mean_of(outputs: Sequence[Any]) -> Any:
    """The mean of the members' outputs: floating-point tensors and numbers, in tuples, lists and mappings."""
    first = outputs[0]
    if isinstance(first, torch.Tensor) and (first.is_floating_point() or first.is_complex()):
        return torch.stack(list(outputs)).mean(0)
    if isinstance(first, float):
        return sum(outputs) / len(outputs)
    if isinstance(first, tuple | list):
        items = [mean_of(several) for several in zip(*outputs, strict=True)]
        return type(first)(*items) if hasattr(first, "_fields") else type(first)(items)
    if isinstance(first, Mapping):
        mean: Any = copy(first)
        for name in first:
            mean[name] = mean_of([output[name] for output in outputs])
        return mean
    if isinstance(first, torch.Tensor) and not all(torch.equal(first, other) for other in outputs[1:]):
        raise ConfigError(
            f"members of an ensemble predict tensors of {first.dtype} that differ, which have no mean.\n"
            "  Let forward return floating numbers, and decide by them outside of it."
        )
    return first
