"""The seam between the runtime and a library that sums over all processes by itself."""

from collections.abc import Callable
from typing import Any, Protocol

Memory = Any
"""A flat array of numbers: numpy's, or one that lies on a device and is handed around only."""


class PendingSum(Protocol):
    """A sum that is under way. Its memory belongs to the library until it is done."""

    @property
    def is_done(self) -> bool:
        """The result lies where the contribution was. Raises TransportError if there will be none."""
        ...


class Summing(Protocol):
    """One process's part in sums over all processes. All begin the same sums in the same order.

    Processes meet before the first sum: what one has to say (`notes`) must be told to all others (`hear`), by
    somebody who knows that it is them. Nothing here ever waits.
    """

    def meet(self, wake: Callable[[], None]) -> None:
        """Begin to connect to the others, once. From then on `wake` is called, by any thread, when something is new."""
        ...

    def notes(self) -> list[tuple[str, bytes]]:
        """What the others are to be told now, each with its name."""
        ...

    def hear(self, name: str, value: bytes) -> None:
        """Another process said this."""
        ...

    @property
    def is_ready(self) -> bool:
        """The processes have met: sums may begin. Raises TransportError if they cannot meet."""
        ...

    def gradients(self, num_elements: int, itemsize: int) -> Memory:
        """New memory for gradients, where the model is."""
        ...

    def beside(self, array: Memory, itemsize: int) -> Memory:
        """New memory of as many numbers, where that array is."""
        ...

    def copy(self, source: Memory, into: Memory) -> None:
        """Copy from one memory to another one beside it."""
        ...

    def begin(self, given: Memory, into: Memory, share: float | None, op: str) -> PendingSum:
        """Begin to sum over all processes, into `into`, what is given times its share; None: it is left out.

        For the maximum, shares do not matter. The value given is that of now. Both memories belong to the library until
        the sum is done; what was given stays as it was, unless it is given and received in the same memory.
        """
        ...

    def close(self) -> None:
        """Take leave; no sum is under way."""
        ...
