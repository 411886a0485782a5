"""Sums by torch.distributed, in a process group of Weft's own that scripts do not see.

The one file of the transports that knows torch. The group's processes find each other by what they tell each other
through Weft's own transport, which knows who they are; so there is no store that listens, and no port to agree on.
"""

from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from threading import Condition, Thread
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch.distributed import Store  # type: ignore[attr-defined]

from weft.core.actions import MAX
from weft.core.errors import TransportError

Array = NDArray[Any]

GLOO = "gloo"
TIMEOUT = timedelta(minutes=10)
"""Torch gives up after this; whoever is gone is noticed long before, by the engine."""


class MeetingPlace(Store):
    """What processes tell each other to meet, as torch wants to have it: a store of named values.

    Torch asks in a thread of its own, and waits; the driver's thread carries what is said to and fro.
    """

    def __init__(self) -> None:
        super().__init__()
        self.wake: Callable[[], None] = lambda: None
        """Called when there are letters."""
        self._changed = Condition()
        self._values: dict[str, bytes] = {}
        self._unsaid: deque[tuple[str, bytes]] = deque()

    def set(self, key: str, value: bytes) -> None:  # type: ignore[override]  # what it is given in truth
        self._unsaid.append((key, value))
        self.hear(key, value)
        self.wake()

    def get(self, key: str) -> bytes:
        self.wait([key])
        return self._values[key]

    def wait(self, keys: Sequence[str], timeout: timedelta = TIMEOUT) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: all(key in self._values for key in keys), timeout.total_seconds()):
                raise TimeoutError(f"nobody said {', '.join(keys)} within {timeout.total_seconds():g} s")

    def hear(self, key: str, value: bytes) -> None:
        with self._changed:
            self._values[key] = value
            self._changed.notify_all()

    def letters(self) -> list[tuple[str, bytes]]:
        """What was set since the last call."""
        return [self._unsaid.popleft() for _ in range(len(self._unsaid))]


class TorchSum:
    """One all-reduce. Torch's own thread says when it is done; whoever drives may sleep until then."""

    def __init__(self, work: Any, wake: Callable[[], None]) -> None:
        self._error: str | None = None
        self._has_ended = False
        self._work = work
        self._wake = wake
        work.get_future().then(self._ended)

    def _ended(self, future: Any) -> None:
        try:
            future.value()
        except RuntimeError as error:
            self._error = str(error).splitlines()[0]
        self._has_ended = True
        self._wake()

    @property
    def is_done(self) -> bool:
        if self._error is not None:
            raise TransportError(
                f"torch.distributed could not sum: {self._error}.\n  Another worker is gone, or cannot be reached."
            )
        return self._has_ended


class TorchSums:
    """This process's part in the sums of a group over Gloo, whose sockets are at `host`."""

    def __init__(self, rank: int, num_workers: int, host: str) -> None:
        self._rank = rank
        self._num_workers = num_workers
        self._host = host
        self._place = MeetingPlace()
        self._is_meeting = False
        self._group: Any = None
        self._error: BaseException | None = None

    def meet(self, wake: Callable[[], None]) -> None:
        if not self._is_meeting:
            self._is_meeting = True
            self._place.wake = wake
            Thread(target=self._make, name="weft meets torch", daemon=True).start()

    def _make(self) -> None:
        try:
            gloo: Any = dist.ProcessGroupGloo
            options = gloo._Options()
            options._timeout = TIMEOUT
            options._devices = [gloo.create_device(hostname=self._host)]
            self._group = gloo(self._place, self._rank, self._num_workers, options)
        except BaseException as error:  # told to whoever drives
            self._error = error
        self._place.wake()

    def letters(self) -> list[tuple[str, bytes]]:
        return self._place.letters()

    def hear(self, name: str, value: bytes) -> None:
        self._place.hear(name, value)

    @property
    def is_ready(self) -> bool:
        if self._error is not None:
            raise TransportError(
                f"the processes of torch.distributed did not meet: {self._error}.\n"
                "  Another worker is gone, or cannot be reached."
            ) from self._error
        return self._group is not None

    def allocate(self, num_elements: int, itemsize: int) -> Array:
        return np.zeros(num_elements, f"f{itemsize}")

    def begin(self, array: Array, op: str) -> TorchSum:
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp(dist.ReduceOp.MAX if op == MAX else dist.ReduceOp.SUM)
        return TorchSum(self._group.allreduce([torch.from_numpy(array)], options), self._place.wake)

    def close(self) -> None:
        self._group = None
