"""A torch model that is not in host memory: its parameters stay where they are, and its gradients are summed there.

Only a strategy that keeps all replicas equal can be run so, with sums by torch.distributed: nothing else needs to
reach the parameters. Float buffers (BatchNorm's means) are mirrored on the host, where they are averaged. Not yet run
on a GPU by us; tests let a model on the CPU behave as if it were elsewhere.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from weft.adapters.torch.bucket_layout import BucketLayout
from weft.adapters.torch.replica import TorchReplica
from weft.core.names import PARAMS


class DeviceReplica(TorchReplica):
    """As its base, but for where things are: `params` on the host is a mirror of what was there when it settled."""

    def __init__(self, model: nn.Module, *optimizers: Optimizer) -> None:
        self._home = next(model.parameters()).device
        super().__init__(model, *optimizers)
        self.device = str(self._home)

    @property
    def shares_update(self) -> bool:
        return False

    def _is_at_home(self, tensor: Tensor) -> bool:
        return tensor.device == self._home

    def layout(self) -> Sequence[str]:
        return [f"{line} on {self._home.type}" for line in super().layout()]

    def _live_in(self, flats: Sequence[BucketLayout], memory: Sequence[Tensor]) -> None:
        """The tensors stay where they are."""

    def values(self) -> Sequence[Any]:
        return [tensor.detach().cpu().clone().view(_plain(tensor)).numpy() for tensor in self._all()]

    def begin_with(self, values: Sequence[Any]) -> None:
        with torch.no_grad():
            for tensor, value in zip(self._all()[-len(values) :], values, strict=True):
                tensor.copy_(torch.from_numpy(value).view(tensor.dtype))

    def pull(self) -> None:
        for flat, array in self._kept():
            flat.write(torch.from_numpy(array))

    def push(self) -> None:
        with torch.no_grad():
            for flat, array in self._kept():
                for tensor, view in zip(flat.tensors, flat.views(torch.from_numpy(array)), strict=True):
                    tensor.copy_(view)

    def show(self) -> None:
        for flat, array in zip(self._flats, self._arrays[PARAMS], strict=True):
            flat.write(torch.from_numpy(array))

    def _kept(self) -> list[tuple[BucketLayout, Any]]:
        """What is not trained but averaged, and its mirror."""
        pairs = zip(self.buckets, self._flats, self._arrays[PARAMS], strict=True)
        return [(flat, array) for bucket, flat, array in pairs if not bucket.trainable]


def _plain(tensor: Tensor) -> torch.dtype:
    """The type that numpy has for it."""
    return torch.int16 if tensor.dtype == torch.bfloat16 else tensor.dtype


def is_elsewhere(model: nn.Module) -> bool:
    """Some of a model is not in host memory."""
    return any(parameter.device.type != "cpu" for parameter in model.parameters())
