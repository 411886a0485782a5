"""A trained torch parameter, and the memory of its gradients in the buckets."""

from typing import Any

import torch
from torch import Tensor

from weft.core.errors import ConfigError


class Trained:
    """A trained parameter with the memory of its own gradient (`given`) and of the one to be applied (`seen`)."""

    __slots__ = ("bucket", "flag", "given", "given_flags", "index", "owner", "parameter", "seen", "seen_flags")

    def __init__(self, index: int, parameter: Tensor, owner: int) -> None:
        self.index = index
        self.parameter = parameter
        self.owner = owner
        """The index of its optimizer."""
        self.bucket = 0
        self.flag = 0
        self.given: Tensor
        self.seen: Tensor
        self.given_flags: Any
        self.seen_flags: Any

    def give(self) -> None:
        """Copy `.grad` to the worker's contribution."""
        self._put(self.given, self.given_flags)

    def keep(self) -> None:
        """Copy `.grad` to the gradient that will be applied, unless it is that memory already."""
        if self.parameter.grad is not self.seen:
            self._put(self.seen, self.seen_flags)

    def _put(self, place: Tensor, flags: Any) -> None:
        grad = self.parameter.grad
        flags[self.flag] = grad is not None
        if grad is None:
            place.zero_()
        elif grad.layout is not torch.strided:
            raise ConfigError(
                f"a parameter of shape {tuple(self.parameter.shape)} has a sparse gradient, which is not shared.\n"
                "  Use sparse=False in its layer."
            )
        elif grad.data_ptr() != place.data_ptr():
            place.copy_(grad)

    def set_aside(self) -> None:
        """Give `.grad` memory of its own, since that of the gradient to be applied will be overwritten."""
        if self.parameter.grad is self.seen:
            self.parameter.grad = self.seen.clone()

    def give_nothing(self) -> None:
        """Contribute no gradient, whatever `.grad` is."""
        self.set_aside()
        self.given.zero_()
        self.given_flags[self.flag] = 0

    def keep_nothing(self) -> None:
        """Let no gradient of this parameter be applied, whatever `.grad` is."""
        self.set_aside()
        self.seen.zero_()
        self.seen_flags[self.flag] = 0

    def expose(self) -> None:
        """Set `.grad` to the gradient to be applied; None if no worker had one."""
        self.parameter.grad = self.seen if self.seen_flags[self.flag] else None
