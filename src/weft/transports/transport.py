"""The seam between the runtime and the wire: what a driver asks of a transport."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from weft.transports.frames import Header

Rank = int
"""A process of the run: that of the worker with this number."""


class Frame(NamedTuple):
    """A message that came; its memory is lent until the call that hands it over returns.

    This is rule 5 of docs/architecture.md.
    """

    header: Header
    data: bytes | memoryview
    body: memoryview


class Traffic(NamedTuple):
    """What has gone from this process to another one, so far, and what has come."""

    network_s: float
    """Time in which bytes were on their way, other than those that the receiver had no room for."""
    num_bytes: int
    """That were acknowledged."""
    round_trip_s: float
    """The shortest so far, which even a link that carries nothing has had."""
    bytes_received: int


class Transport(Protocol):
    """Frames between this process and the others. One thread at a time; channels are FIFO per pair.

    Whoever sends takes the value now: what cannot leave at once is copied and waits in an outbox.
    """

    @property
    def bytes_sent(self) -> int: ...

    @property
    def num_copies(self) -> int: ...

    @property
    def refused(self) -> dict[str, int]:
        """How often frames or connections were refused, by reason."""
        ...

    def send(self, to: Rank, header: bytes, data: bytes, body: memoryview | None) -> None:
        """Send a frame to another process; never waits."""
        ...

    def poll(self, take: Callable[[Frame], None]) -> int:
        """Move what can be moved without waiting; hands over every frame that is complete. How many there were.

        Raises NodeLost when a process that has not said goodbye is gone.
        """
        ...

    def outbox_bytes(self, to: Rank | None = None) -> int:
        """What is waiting to leave, for one process or for all."""
        ...

    def traffic(self) -> dict[Rank, Traffic]:
        """What each link to another process has carried; none where there is no network, or nobody keeps account."""
        ...

    def fileno_set(self) -> list[int]:
        """Descriptors that become readable when something comes, besides bells, which whoever waits listens to."""
        ...

    def close(self) -> None: ...
