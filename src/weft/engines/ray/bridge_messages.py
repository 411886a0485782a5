"""Messages between a launcher and its Ray bridge, over a socket pair that only these two processes hold."""

import socket
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from weft.transports.framed_socket import FramedSocket, framed

MESSAGE_BYTES_MAX = 64 << 20


class Settle(Struct, frozen=True, tag=True):
    """To the Ray bridge, first: connect to a cluster, or start one, and upload `folder`."""

    address: str | None
    """The cluster's address; None: start a cluster on this machine, with `resources`."""
    resources: dict[str, float]
    temporary: str
    """The folder for files of a cluster that the bridge starts; it is removed with the cluster."""
    folder: str


class Settled(Struct, frozen=True, tag=True):
    """To the launcher: the bridge is connected; `address` is this machine's address in the cluster."""

    address: str
    nodes: list[str]
    """The names of the Ray resources 'node:ADDRESS', of which each node has one that no other node has."""


class Place(Struct, frozen=True, tag=True):
    """To the Ray bridge: reserve a placement group with one bundle per worker, and start an actor in each."""

    bundles: list[dict[str, float]]
    patience_s: float
    spreads: bool = False
    """STRICT_SPREAD: no two bundles on one node; otherwise PACK."""


class Placed(Struct, frozen=True, tag=True):
    """To the launcher: all bundles are reserved, and their actors are starting."""


class Ask(Struct, frozen=True, tag=True):
    """To the Ray bridge: call the actor of worker `rank` with a command."""

    rank: int
    command: str
    argument: bytes = b""


class Answered(Struct, frozen=True, tag=True):
    """To the launcher: what the actor returned."""

    rank: int
    command: str
    answer: bytes


class Lost(Struct, frozen=True, tag=True):
    """To the launcher: the actor of worker `rank` is gone, or its command raised."""

    rank: int
    command: str
    text: str


class Clear(Struct, frozen=True, tag=True):
    """To the Ray bridge: kill all actors, and remove the placement group."""


class Cleared(Struct, frozen=True, tag=True):
    """To the launcher: all actors are killed, and the placement group is removed."""


class CommandRefused(Struct, frozen=True, tag=True):
    """To the launcher: the last request failed, and nothing of it is left on the cluster; `text` says why."""

    text: str


ToBridge = Settle | Place | Ask | Clear
ToLauncher = Settled | Placed | Answered | Lost | Cleared | CommandRefused


class BridgeConnection:
    """One end of the socket pair; `kind` is the union of messages that it receives."""

    def __init__(self, end: socket.socket, kind: Any) -> None:
        self._end = end
        self._framed = FramedSocket(end, MESSAGE_BYTES_MAX)
        self._decoder = msgspec.msgpack.Decoder(kind)
        self.is_closed = False

    def fileno(self) -> int:
        return self._end.fileno()

    def send(self, message: ToBridge | ToLauncher) -> None:
        """Send a message; if the other end is gone, sets `is_closed`."""
        try:
            self._framed.send(framed(msgspec.msgpack.encode(message)))
        except OSError:
            self.is_closed = True

    def receive(self, timeout_s: float | None = 0.0) -> Iterator[Any]:
        """Messages that arrive within `timeout_s`; None blocks until some do."""
        self._end.settimeout(timeout_s)
        try:
            self.is_closed = self._framed.read(wait=True) == 0 or self.is_closed
        except TimeoutError:
            return
        except OSError:
            self.is_closed = True
        finally:
            self._end.settimeout(None)
        while (raw := self._framed.take()) is not None:
            yield self._decoder.decode(raw)

    @property
    def is_hung_up(self) -> bool:
        """Whether the other end is closed, and everything that it sent has been received."""
        try:
            return not self._end.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        self.is_closed = True
        self._framed.close()
