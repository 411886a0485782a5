"""Device streams: Weft's sums are enqueued on a stream of their own, beside the model's.

A sum waits for everything that was enqueued on the model's stream before it (wait_stream), so that it reads the values
of now; and what is enqueued on the model's stream afterwards waits for the sum. So a sum may be reported as soon as it
is enqueued: Python runs ahead of the device.

We have not run this on a GPU yet; tests replace the stream by one that does everything late.
"""

from collections.abc import Callable
from typing import Any, Protocol

import torch


class Stream(Protocol):
    """A stream for sums, ordered with the model's own stream."""

    device: torch.device

    def run(self, work: Callable[[], None]) -> Callable[[], bool]:
        """Run `work`, which enqueues on this stream, after all earlier and before all later work of the model's stream.

        Returns a function that says whether the device has done it.
        """
        ...


class CudaStream:
    """A CUDA stream; must be made in the script's thread, whose current stream is the model's."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._model = torch.cuda.current_stream(device)
        cuda: Any = torch.cuda
        self._sums = cuda.Stream(device)
        self._mark: Callable[[], Any] = cuda.Event

    def run(self, work: Callable[[], None]) -> Callable[[], bool]:
        self._sums.wait_stream(self._model)
        with torch.cuda.device(self.device), torch.cuda.stream(self._sums):
            work()
        self._model.wait_stream(self._sums)
        done = self._mark()
        done.record(self._sums)
        query: Callable[[], bool] = done.query
        return query
