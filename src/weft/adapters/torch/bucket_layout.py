"""The layout of a bucket: tensors of one type, one after another, each aligned to a cache line."""

from collections.abc import Sequence

import torch
from torch import Tensor

from weft.core.names import Tensors

BUCKET_BYTES_MAX = 4 << 20
ALIGN_BYTES = 64


class BucketLayout:
    """The layout of one bucket.

    Each tensor is followed by one more number. In a gradient it is the flag: not 0 if the tensor has a gradient. It is
    sent, summed and averaged with the bucket, so that every worker and server that applies the bucket knows whether any
    worker had a gradient; if none had, all of them skip the tensor.
    """

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors = tensors
        self.starts: list[int] = []
        end = 0
        for tensor in tensors:
            align = ALIGN_BYTES // tensor.element_size()
            start = -(-end // align) * align
            self.starts.append(start)
            end = start + tensor.numel() + 1
        self.num_elements = end
        self.itemsize = tensors[0].element_size()

    def views(self, memory: Tensor) -> list[Tensor]:
        """Each tensor's part of `memory`, in its shape."""
        return [
            memory[start : start + tensor.numel()].view(tensor.shape)
            for tensor, start in zip(self.tensors, self.starts, strict=True)
        ]

    def flags(self) -> list[int]:
        """The index of each tensor's flag."""
        return [start + tensor.numel() for tensor, start in zip(self.tensors, self.starts, strict=True)]

    def shapes(self) -> Tensors:
        """The index at which each tensor begins, and its shape."""
        return tuple((start, tuple(tensor.shape)) for tensor, start in zip(self.tensors, self.starts, strict=True))

    def stretches(self) -> list[tuple[int, int]]:
        """From each tensor's begin to that of the next, flag and padding included: together the whole bucket."""
        return list(zip(self.starts, [*self.starts[1:], self.num_elements], strict=True))

    def write(self, memory: Tensor) -> None:
        """Copy the tensors' values to `memory`."""
        with torch.no_grad():
            for tensor, view in zip(self.tensors, self.views(memory), strict=True):
                view.copy_(tensor)

    def move(self, memory: Tensor) -> None:
        """Make the tensors views of `memory`, with the values that it has."""
        for tensor, view in zip(self.tensors, self.views(memory), strict=True):
            tensor.data = view


def by_type(tensors: Sequence[Tensor]) -> list[list[Tensor]]:
    """Tensors in order, in groups of one type."""
    types = list(dict.fromkeys(tensor.dtype for tensor in tensors))
    return [[tensor for tensor in tensors if tensor.dtype == kind] for kind in types]


def bucketed(tensors: Sequence[Tensor], bytes_max: int) -> list[list[Tensor]]:
    """Tensors in order, in groups of one type and at most `bytes_max` (or a single tensor)."""
    buckets: list[list[Tensor]] = []
    for group in by_type(tensors):
        size = bytes_max + 1
        for tensor in group:
            if size + tensor.nbytes > bytes_max:
                buckets.append([])
                size = 0
            buckets[-1].append(tensor)
            size += tensor.nbytes
    return buckets
