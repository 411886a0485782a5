"""The interface between the runtime and a library that sums over all processes by itself, such as torch.distributed."""

from collections.abc import Callable
from typing import Any, Protocol

Memory = Any
"""A flat array of numbers: a numpy array, or a device tensor that the runtime only passes on."""


class PendingSum(Protocol):
    """A sum under way. Its memory must not be touched until it is done."""

    @property
    def is_done(self) -> bool:
        """Whether the result is in `into`. Raises TransportError if the sum has failed."""
        ...


class Summing(Protocol):
    """One process's part in sums over all processes, which all begin the same sums in the same order.

    Processes connect before the first sum: the caller sends the `notes` of each to `hear` of all others, over an
    authenticated transport. No method blocks.
    """

    def meet(self, wake: Callable[[], None]) -> None:
        """Begin to connect to the other processes; later calls do nothing. `wake` is called, in any thread, when there
        is a new note, or a sum has ended."""
        ...

    def notes(self) -> list[tuple[str, bytes]]:
        """New (name, value) pairs that the other processes have to be told."""
        ...

    def hear(self, name: str, value: bytes) -> None:
        """Take a (name, value) pair of another process."""
        ...

    @property
    def is_ready(self) -> bool:
        """Whether all processes are connected, so that sums may begin. Raises TransportError if they cannot connect."""
        ...

    def gradients(self, num_elements: int, itemsize: int) -> Memory:
        """New memory for gradients, on the model's device."""
        ...

    def beside(self, array: Memory, itemsize: int) -> Memory:
        """New memory of the length of `array`, on the same device."""
        ...

    def copy(self, source: Memory, into: Memory) -> None:
        """Copy `source` to `into`, on the same device."""
        ...

    def begin(self, given: Memory, into: Memory, share: float | None, op: str) -> PendingSum:
        """Begin to sum `given` times `share` over all processes, into `into`; a `share` of None leaves this one out.

        For the maximum, shares do not matter. The value of `given` is that of now. Both memories belong to the library
        until the sum is done. `given` is not changed, unless it is the same memory as `into`.
        """
        ...

    def close(self) -> None:
        """Close the connections; no sum may be under way."""
        ...
