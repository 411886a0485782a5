"""Leaves out steps of a plain loop whose gradients are not finite, where the seat says so."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from weft.store.finite import is_finite

LeaveOut = Callable[[str], bool]
"""Told the name of a parameter whose gradient is not finite; whether the step is left out."""


class FiniteSteps:
    """Wraps the steps of a plain loop's optimizer. In a step that is left out, `.grad` is None, so that the optimizer
    skips every parameter; afterwards gradients are restored, and buffers (BatchNorm's means) that became NaN are set to
    their values of the step before."""

    def __init__(self, model: nn.Module, optimizer: Optimizer, leave_out: LeaveOut | None) -> None:
        self._model = model
        self._optimizer = optimizer
        self._leave_out = leave_out
        self._kept = [] if leave_out is None else [buffer.clone() for buffer in self._buffers()]

    def _buffers(self) -> list[Tensor]:
        return [buffer for buffer in self._model.buffers() if buffer.is_floating_point()]

    @contextmanager
    def step(self) -> Iterator[None]:
        """A context around one step of the optimizer."""
        held = {id(p) for group in self._optimizer.param_groups for p in group["params"]}
        named = [(name, p) for name, p in self._model.named_parameters() if id(p) in held]
        bad = None if self._leave_out is None else bad_gradient(named)
        is_left_out = bad is not None and self._leave_out is not None and self._leave_out(bad)
        with torch.no_grad():
            for buffer, kept in zip(self._buffers(), self._kept, strict=False):
                if not is_left_out:
                    kept.copy_(buffer)
                elif buffer.isnan().any():
                    buffer.copy_(kept)
        before = [(p, p.grad) for group in self._optimizer.param_groups for p in group["params"] if is_left_out]
        for parameter, _ in before:
            parameter.grad = None
        try:
            yield
        finally:
            for parameter, grad in before:
                parameter.grad = grad


def bad_gradient(named: Iterable[tuple[str, Tensor]]) -> str | None:
    """The name of the first parameter whose gradient is not finite; None if all are."""
    for name, parameter in named:
        if parameter.grad is None:
            continue
        values = parameter.grad.detach()
        if values.is_sparse:
            values = values.coalesce().values()
        is_plain = values.device.type == "cpu" and values.dtype != torch.bfloat16 and values.is_contiguous()
        if not is_finite(values.numpy().reshape(-1) if is_plain else values):
            return name
    return None


def plain_array(tensor: Tensor) -> Any:
    """A tensor as a numpy array in host memory; bfloat16, which numpy does not have, as its bits."""
    values = tensor.detach().cpu()
    return (values.view(torch.int16) if values.dtype == torch.bfloat16 else values).numpy()
