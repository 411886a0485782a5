"""Messages between a launcher and its Ray bridge: lines of JSON, through a pair of sockets that nobody else has."""

import socket
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct


class Settle(Struct, frozen=True, tag=True):
    """To the Ray bridge, first: the cluster, or one to be started, and the folder to be shipped there."""

    address: str | None
    """None: start a cluster on this machine, with these resources."""
    resources: dict[str, float]
    temporary: str
    """Where a cluster of its own keeps what it writes; it is removed with the cluster."""
    folder: str


class Settled(Struct, frozen=True, tag=True):
    """To the launcher: the cluster is there, and knows this machine by this address."""

    address: str
    nodes: list[str]
    """By the resource that each node has for itself."""


class Place(Struct, frozen=True, tag=True):
    """To the Ray bridge: find places for workers, each with these resources."""

    bundles: list[dict[str, float]]
    patience_s: float
    spreads: bool = False
    """No two on one node; otherwise they are close to each other if that can be."""


class Placed(Struct, frozen=True, tag=True):
    """To the launcher: all have one."""


class Ask(Struct, frozen=True, tag=True):
    """To the Ray bridge: let the actor of a worker do this."""

    rank: int
    command: str
    argument: bytes = b""


class Answered(Struct, frozen=True, tag=True):
    """To the launcher: what it gave."""

    rank: int
    command: str
    answer: bytes


class Lost(Struct, frozen=True, tag=True):
    """To the launcher: the actor of a worker is gone, or could not do what was asked."""

    rank: int
    command: str
    text: str


class Clear(Struct, frozen=True, tag=True):
    """To the Ray bridge: give all places back, whoever is still there."""


class Cleared(Struct, frozen=True, tag=True):
    """To the launcher: nobody is."""


class CommandRefused(Struct, frozen=True, tag=True):
    """To the launcher: what was asked last cannot be, and nothing of it is left."""

    text: str


ToBridge = Settle | Place | Ask | Clear
ToLauncher = Settled | Placed | Answered | Lost | Cleared | CommandRefused


class BridgeConnection:
    """One end of the pair."""

    def __init__(self, end: socket.socket, kind: Any) -> None:
        self._end = end
        self._decoder = msgspec.json.Decoder(kind)
        self._rest = b""
        self.is_closed = False

    def fileno(self) -> int:
        return self._end.fileno()

    def send(self, message: ToBridge | ToLauncher) -> None:
        """Say something; nobody hears it if the other end is gone, which is noticed by listening."""
        try:
            self._end.sendall(msgspec.json.encode(message) + b"\n")
        except OSError:
            self.is_closed = True

    def receive(self, timeout_s: float | None = 0.0) -> Iterator[Any]:
        """What comes within some seconds; None waits for as long as it takes."""
        self._end.settimeout(timeout_s)
        try:
            raw = self._end.recv(1 << 16)
        except (BlockingIOError, TimeoutError):
            return
        except OSError:
            raw = b""
        finally:
            self._end.settimeout(None)
        self.is_closed = self.is_closed or not raw
        *lines, self._rest = (self._rest + raw).split(b"\n")
        for line in lines:
            yield self._decoder.decode(line)

    @property
    def is_hung_up(self) -> bool:
        """The other end is gone, and all that it said has been heard."""
        try:
            return not self._end.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        self.is_closed = True
        self._end.close()
