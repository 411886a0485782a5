"""The replica of a torch model on a device: its parameters stay there, and its gradients are summed there.

This needs a strategy that keeps all replicas equal, with sums by torch.distributed: nothing else has to reach the
parameters. Float buffers (BatchNorm's means) are mirrored on the host, where they are averaged. We have not run this on
a GPU yet; tests let a model on the CPU behave as if it were on a device.
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
    """A TorchReplica whose tensors are on a device; `params` on the host is a copy from when it settled."""

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
        """Nothing to do: the tensors stay on the device."""

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
        """Tensors that are averaged but not trained (buffers), with their mirrors on the host."""
        pairs = zip(self.buckets, self._flats, self._arrays[PARAMS], strict=True)
        return [(flat, array) for bucket, flat, array in pairs if not bucket.trainable]


def _plain(tensor: Tensor) -> torch.dtype:
    """A type of the same size that numpy has."""
    return torch.int16 if tensor.dtype == torch.bfloat16 else tensor.dtype


def is_elsewhere(model: nn.Module) -> bool:
    """Whether some parameters of a model are not in host memory."""
    return any(parameter.device.type != "cpu" for parameter in model.parameters())
