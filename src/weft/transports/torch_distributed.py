"""Sums by torch.distributed, in a process group of Weft's own that scripts do not see.

The group's rendezvous goes over Weft's own authenticated transport; so there is no TCPStore that listens, and no port
to agree on.

| thread             | does                                       | shared with the driving thread by        |
|--------------------|--------------------------------------------|------------------------------------------|
| driving            | `notes`, `hear`, `begin`, reads `is_done`  |                                          |
| "weft meets torch" | makes the group: `set`, `get` of the store | `_changed` (values), `_unsaid`, `_group` |
| torch's own        | ends a sum (`TorchSum._ended`)             | `_error`, then `_has_ended`, then `wake` |
"""

from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from math import inf
from threading import Condition, Thread
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor
from torch.distributed import Store  # type: ignore[attr-defined]

from weft.core.actions import MAX
from weft.core.errors import TransportError
from weft.transports.summing import PendingSum
from weft.transports.torch_streams import CudaStream, Stream

Array = NDArray[Any]

CUDA = "cuda"
TYPES = {2: torch.float16, 4: torch.float32, 8: torch.float64}
"""torch's types by the bytes of a number."""
TIMEOUT = timedelta(minutes=10)
"""torch gives up after this; the engine notices a worker that is gone long before."""


class RendezvousStore(Store):
    """The key-value store by which the group's processes meet, in the form that torch wants.

    torch calls it in a thread of its own, and blocks in `get` and `wait`; the driving thread sends what was set to the
    other processes (`notes`), and adds what they set (`hear`).
    """

    def __init__(self) -> None:
        super().__init__()
        self.wake: Callable[[], None] = lambda: None
        """Called when there are new notes, to wake the driving thread."""
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
                raise TimeoutError(f"no process has set {', '.join(keys)} within {timeout.total_seconds():g} s")

    def hear(self, key: str, value: bytes) -> None:
        with self._changed:
            self._values[key] = value
            self._changed.notify_all()

    def notes(self) -> list[tuple[str, bytes]]:
        """The (key, value) pairs that torch has set since the last call."""
        return [self._unsaid.popleft() for _ in range(len(self._unsaid))]


class TorchSum:
    """One all-reduce. torch's own thread calls `_ended` and `wake`; the driving thread may sleep until then."""

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


class EnqueuedSum:
    """A sum on a device's stream. A result on the device counts as done when it is enqueued (rule 3 of
    docs/architecture.md); one that the host reads, when it has arrived."""

    def __init__(self, has_come: Callable[[], bool], *, is_there: bool) -> None:
        self._has_come = has_come
        self._is_there = is_there

    @property
    def is_done(self) -> bool:
        return self._is_there or self._has_come()


Make = Callable[[RendezvousStore, int, int, str], Any]
"""Makes a process group from its store, the rank, the number of processes, and this process's address."""


class TorchSums:
    """This process's part in the sums of a group: in host memory, or in a device's stream."""

    def __init__(
        self, rank: int, num_workers: int, host: str, stream: Stream | None = None, make: Make | None = None
    ) -> None:
        self._about = rank, num_workers, host
        self._stream = stream
        self._make_group = make or (gloo_group if stream is None else partial(nccl_group, stream.device))
        self._store = RendezvousStore()
        self._is_meeting = False
        self._group: Any = None
        self._error: BaseException | None = None
        self._staging: dict[int, Tensor] = {}
        """Device memory in which host arrays are summed, by the address of the host array."""

    def meet(self, wake: Callable[[], None]) -> None:
        if not self._is_meeting:
            self._is_meeting = True
            self._store.wake = wake
            Thread(target=self._make, name="weft meets torch", daemon=True).start()

    def _make(self) -> None:
        try:
            self._group = self._make_group(self._store, *self._about)
        except BaseException as error:  # raised by `is_ready`, in the driving thread
            self._error = error
        self._store.wake()

    def notes(self) -> list[tuple[str, bytes]]:
        return self._store.notes()

    def hear(self, name: str, value: bytes) -> None:
        self._store.hear(name, value)

    @property
    def is_ready(self) -> bool:
        if self._error is not None:
            raise TransportError(
                f"the processes of torch.distributed did not meet: {self._error}.\n"
                "  Another worker is gone, or cannot be reached."
            ) from self._error
        return self._group is not None

    def gradients(self, num_elements: int, itemsize: int) -> Any:
        if self._stream is None:
            return np.zeros(num_elements, f"f{itemsize}")
        return torch.zeros(num_elements, dtype=TYPES[itemsize], device=self._stream.device)

    def beside(self, array: Any, itemsize: int) -> Any:
        if isinstance(array, Tensor):
            return torch.zeros(len(array), dtype=TYPES[itemsize], device=array.device)
        is_pinned = self._stream is not None and self._stream.device.type == CUDA
        return torch.zeros(len(array), dtype=TYPES[itemsize], pin_memory=is_pinned).numpy()

    def copy(self, source: Any, into: Any) -> None:
        if not isinstance(into, Tensor):
            np.copyto(into, source, casting="same_kind")
            return
        assert self._stream is not None
        self._stream.run(partial(_bring, source, into, 1.0, MAX))

    def begin(self, given: Any, into: Any, share: float | None, op: str) -> PendingSum:
        if self._stream is None:
            _bring(torch.from_numpy(given), torch.from_numpy(into), share, op)
            return TorchSum(self._all_reduce(torch.from_numpy(into), op), self._store.wake)
        is_there = isinstance(into, Tensor)
        work = partial(self._sum_there if is_there else self._sum_staged, given, into, share, op)
        return EnqueuedSum(self._stream.run(work), is_there=is_there)

    def _sum_there(self, given: Tensor, into: Tensor, share: float | None, op: str) -> None:
        _bring(given, into, share, op)
        self._all_reduce(into, op).wait()

    def _sum_staged(self, given: Array, into: Array, share: float | None, op: str) -> None:
        """Sum host arrays on the device: copy in, all-reduce, copy out; from and to pinned memory."""
        assert self._stream is not None
        here = torch.from_numpy(into)
        there = self._staging.get(into.ctypes.data)
        if there is None:
            there = self._staging[into.ctypes.data] = torch.empty_like(here, device=self._stream.device)
        there.copy_(torch.from_numpy(given), non_blocking=True)
        self._sum_there(there, there, share, op)
        here.copy_(there, non_blocking=True)

    def _all_reduce(self, tensor: Tensor, op: str) -> Any:
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp(dist.ReduceOp.MAX if op == MAX else dist.ReduceOp.SUM)
        return self._group.allreduce([tensor], options)

    def close(self) -> None:
        self._group = None


def _bring(given: Tensor, into: Tensor, share: float | None, op: str) -> None:
    """Write `given` times `share` to `into`; without a share the neutral element, even if `given` is NaN."""
    if share is None:
        into.fill_(-inf if op == MAX else 0.0)
    elif given.dtype == into.dtype and share != 1.0 and op != MAX:
        torch.mul(given, share, out=into)
    else:
        into.copy_(given)
        if op != MAX and share != 1.0:
            into.mul_(share)


def gloo_group(store: RendezvousStore, rank: int, num_workers: int, host: str) -> Any:
    """A Gloo process group over sockets at the address `host`."""
    gloo: Any = dist.ProcessGroupGloo
    options = gloo._Options()
    options._timeout = TIMEOUT
    options._devices = [gloo.create_device(hostname=host)]
    return gloo(store, rank, num_workers, options)


def nccl_group(device: torch.device, store: RendezvousStore, rank: int, num_workers: int, host: str) -> Any:
    """An NCCL process group; it connects here, while the driving thread relays the store. We have not run it yet."""
    nccl: Any = dist.ProcessGroupNCCL
    options = nccl.Options()
    options._timeout = TIMEOUT
    group = nccl(store, rank, num_workers, options)
    group.eager_connect_single_device(device)
    return group


def torch_sums(rank: int, num_workers: int, host: str, device: str | None) -> TorchSums:
    """Sums on the model's device: NCCL on a GPU, Gloo on the host."""
    if device is None:
        return TorchSums(rank, num_workers, host)
    return TorchSums(rank, num_workers, host, CudaStream(torch.device(device)))
