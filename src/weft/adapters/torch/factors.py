"""The factors of linear layers' gradients: inputs, and gradients of outputs ("errors"; Xie et al. 2016).

The gradient of a linear layer's weight is the product of the two. That is checked: a script may clip, scale or add to
its gradients, and then the factors do not give the gradient, and are left out.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from weft.core.errors import ConfigError

Array = NDArray[Any]

TOLERANCE = 1e-4
"""How far a row of the gradient may be from the product, relative to the longest row."""


CALLS_MAX = 256
"""Calls of one layer whose factors are kept: more than any script makes in a step."""


class FactorCapture:
    """Hooks into a model's linear layers, and keeps the factors of the backward passes of one step."""

    def __init__(self, model: nn.Module) -> None:
        self._factors: dict[int, tuple[list[Tensor], list[Tensor]]] = {}
        """Errors and activations of each weight (by id), one for each call of its layer."""
        layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
        if not layers:
            raise ConfigError(
                "'factors' are those of linear layers, but the model has none: a convolution's gradient is no product "
                "of two small ones.\n  Use 'powersgd(2)' or 'topk(0.01)' instead."
            )
        for layer in layers:
            layer.register_forward_hook(self._went_forward)

    def _went_forward(self, layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        """Register a hook for the gradient of this output, which backward has before the weight's gradient."""
        weight = layer.weight
        assert isinstance(weight, Tensor)
        if inputs and output.requires_grad and weight.requires_grad and inputs[0].dtype == weight.dtype:
            output.register_hook(partial(self._came_back, id(weight), inputs[0].detach()))  # type: ignore[no-untyped-call]

    def _came_back(self, weight: int, activation: Tensor, error: Tensor) -> None:
        errors, activations = self._factors.setdefault(weight, ([], []))
        if len(errors) == CALLS_MAX:  # no step has taken them: the script only calls backward
            errors.clear()
            activations.clear()
        errors.append(error.detach().reshape(-1, error.shape[-1]))
        activations.append(activation.reshape(-1, activation.shape[-1]))

    def take(self, tensors: Sequence[Tensor], gradient: Sequence[Array]) -> list[tuple[int, Array, Array]]:
        """The factors of those of `tensors` whose product is the gradient; all of them are dropped here."""
        found = []
        for index, (tensor, values) in enumerate(zip(tensors, gradient, strict=True)):
            factors = self._factors.pop(id(tensor), None)
            if factors is None:
                continue
            if any(part.dtype != tensor.dtype for parts in factors for part in parts):
                continue  # autocast made them less precise than the gradient
            errors, activations = (torch.cat(parts).numpy() for parts in factors)
            if len(errors) == len(activations) and _is_product(errors, activations, values):
                found.append((index, errors, activations))
        return found


def _is_product(errors: Array, activations: Array, gradient: Array) -> bool:
    """Whether the product times a random vector equals the gradient times it (Freivalds): a row that differs in any
    number would almost surely give another result."""
    probe = np.random.default_rng(len(gradient)).standard_normal(gradient.shape[1:]).astype(gradient.dtype)
    lack = errors.T @ (activations @ probe) - gradient @ probe
    return bool(np.abs(lack).max() <= TOLERANCE * np.linalg.norm(gradient, axis=1).max() + 1e-12)
