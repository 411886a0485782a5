"""The interface between the runtime and transports: frames to and from the other processes of a run."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple, Protocol

from weft.transports.frames import Header

Rank = int
"""A process of the run, by the number of its worker."""

FindRoom = Callable[[Header], memoryview | None]
"""Finds the memory into which a frame's body is to be received; None: the transport's own."""


class Frame(NamedTuple):
    """A received message. Its memory is valid only until `take`, to which it is passed, returns.

    This is rule 5 of docs/architecture.md.
    """

    header: Header
    data: bytes | memoryview
    body: memoryview
    sender: Rank
    """The process that sent it: of a node that was moved, the header does not tell."""


class Traffic(NamedTuple):
    """What one connection has carried so far, by TCP_INFO."""

    network_s: float
    """Time in which bytes were under way, without that in which the receiver's window was full."""
    num_bytes: int
    """Bytes sent and acknowledged."""
    round_trip_s: float
    """The shortest round trip so far; known since the connection was set up."""
    bytes_received: int


class Transport(Protocol):
    """Frames between this process and the others. One thread at a time; FIFO per (source, target).

    `send` captures the value of now: what cannot leave at once is copied to an outbox, unless it is lent.
    """

    @property
    def bytes_sent(self) -> int: ...

    @property
    def num_copies(self) -> int: ...

    @property
    def refused(self) -> dict[str, int]:
        """How often frames or connections were refused, by reason."""
        ...

    def send(
        self, to: Rank, header: bytes, data: bytes, body: memoryview | None, lent_for: Hashable | None = None
    ) -> None:
        """Send a frame to process `to`; never blocks.

        A body that is `lent_for` a purpose is read when it leaves: its memory must not change before that, or before
        `take_back` of that purpose.
        """
        ...

    def take_back(self, lent_for: Hashable) -> None:
        """Copy what was lent for this purpose and has not left yet: its memory is about to change."""
        ...

    def receive_into(self, find_room: FindRoom) -> None:
        """Ask `find_room`, with the checked header of each frame that comes from now on, where its body shall go."""
        ...

    def poll(self, take: Callable[[Frame], None]) -> int:
        """Send and receive without blocking; calls `take` with every complete frame, and returns their number.

        Raises NodeLost when a process is gone that has not said goodbye.
        """
        ...

    def forget(self, lost: Sequence[Rank]) -> None:
        """Drop what waits in the outboxes to these processes, which are dead."""
        ...

    def reconnect(self, newcomers: Mapping[Rank, int], view: int) -> list[Rank]:
        """Connect to the newcomers of `view`, which have taken the places of dead processes, by the ports on which they
        listen. Returns those that cannot be reached. A newcomer calls it when it is told its view, and
        raises a TransportError or NodeLost that names the others it does not reach."""
        ...

    def outbox_bytes(self, to: Rank | None = None) -> int:
        """Bytes in the outbox to one process, or to all."""
        ...

    def traffic(self) -> dict[Rank, Traffic]:
        """What each connection to another process has carried; empty without sockets, or without TCP_INFO."""
        ...

    def fileno_set(self) -> list[int]:
        """Descriptors that become readable when frames arrive; rings have none, and ring bells instead."""
        ...

    def door_set(self) -> list[int]:
        """Descriptors that become readable when a process connects that is not of this run, or goes on with its
        handshake; rings have none."""
        ...

    def is_answering(self) -> bool:
        """Whether a handshake is under way, which must not take for ever."""
        ...

    def close(self) -> None: ...
