"""Where a device does what it is told: in order, and later than it is told.

Weft's sums go to a stream of their own beside the model's. What is enqueued there begins when all that the model's
stream was told before has been done, so it reads the values of now; and what the model's stream is told afterwards
begins when the sum is there. So a sum may be reported as soon as it is enqueued: Python runs ahead of the device.

Not yet run on a GPU by us; tests put a stream in its place that does everything late.
"""

from collections.abc import Callable
from typing import Any, Protocol

import torch


class Stream(Protocol):
    """A stream of sums beside the model's own."""

    device: torch.device

    def run(self, work: Callable[[], None]) -> Callable[[], bool]:
        """Enqueue work between what the model's stream was told so far and what it is told later; has it been done?"""
        ...


class CudaStream:
    """On a GPU; made by the thread that runs the script, whose stream is the model's."""

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
