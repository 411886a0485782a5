"""Checks what must stay as it was at weft.join: modules, the optimizers' groups, and the memory of parameters.

If a script has replaced a parameter's memory (`p.data = ...`, `model.double().float()`), its values are copied to the
bucket, and the parameter is a view of the bucket again. What cannot be shared after joining is refused by name.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from weft.core.errors import ConfigError


class Unchanged:
    """Checks before every step that models and optimizers are as they joined."""

    def __init__(self) -> None:
        self._modules: list[tuple[nn.Module, str, list[int], list[int]]] = []
        self._buffers: list[tuple[nn.Module, str, str, Tensor]] = []
        self._converted: set[str] = set()
        """Names of buffers that were replaced once, as a conversion of the whole model does."""
        self._groups: list[tuple[Optimizer, list[int]]] = []
        self._homes: list[tuple[str, Tensor, Tensor, int]] = []

    def add(self, model: nn.Module, optimizers: Sequence[Optimizer]) -> None:
        """Remember the modules, buffers and groups of a model that joins."""
        for name, module in model.named_modules():
            self._modules.append((module, name, _ids(module._parameters), _ids(module._modules)))
            for own, buffer in module._buffers.items():
                if buffer is not None and buffer.is_floating_point():
                    self._buffers.append((module, own, f"{name}.{own}".lstrip("."), buffer))
        self._groups += [(optimizer, _sizes(optimizer)) for optimizer in optimizers]

    def live_in(self, homes: Sequence[tuple[str, Tensor, Tensor]]) -> None:
        """Remember the memory of tensors: (name, tensor, its view of the bucket)."""
        self._homes = [(name, tensor, home, home.data_ptr()) for name, tensor, home in homes]

    def check(self) -> None:
        """Move tensors back whose memory the script has replaced; raise ConfigError for parts added or removed."""
        for module, name, parameters, children in self._modules:
            if _ids(module._parameters) != parameters or _ids(module._modules) != children:
                raise ConfigError(
                    f"the module '{name or type(module).__name__}' got other parameters or parts after weft.join, "
                    "which workers do not share.\n  Change the model before it joins; write to parameters with "
                    "parameter.copy_(...) under torch.no_grad()."
                )
        for module, own, name, buffer in self._buffers:
            other = module._buffers.get(own)
            if other is not buffer:
                if other is None or name in self._converted:
                    raise ConfigError(
                        f"the buffer '{name}' is replaced again and again, so workers would not share it.\n"
                        "  Write to it in place: buffer.copy_(...), buffer.mul_(...) or buffer.add_(...)."
                    )
                self._converted.add(name)
                _take_home(name, other, buffer.data)
                module._buffers[own] = buffer
        for optimizer, sizes in self._groups:
            if _sizes(optimizer) != sizes:
                raise ConfigError(
                    "the optimizer got other groups of parameters after weft.join, which workers do not share.\n"
                    "  Add all groups before weft.join."
                )
        for name, tensor, home, pointer in self._homes:
            if tensor.data_ptr() != pointer:
                _take_home(name, tensor, home)


def _take_home(name: str, tensor: Tensor, home: Tensor) -> None:
    if tensor.shape != home.shape or tensor.dtype != home.dtype or tensor.device != home.device:
        raise ConfigError(
            f"'{name}' became a {tuple(tensor.shape)} of {tensor.dtype} on '{tensor.device}' after weft.join, but "
            f"workers share a {tuple(home.shape)} of {home.dtype}.\n  Convert the model before it joins."
        )
    with torch.no_grad():
        home.copy_(tensor)
    tensor.data = home


def _ids(things: dict[str, Any]) -> list[int]:
    return [id(thing) for thing in things.values()]


def _sizes(optimizer: Optimizer) -> list[int]:
    return [len(group["params"]) for group in optimizer.param_groups]
