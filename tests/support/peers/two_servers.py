"""Two bulk-synchronous servers with a bucket each, for two workers: what they are told, and what they answer."""

from typing import Any

from weft.core.actions import Action, Apply, Combine, Note, Send
from weft.core.events import Data, MembersChanged, Received
from weft.core.names import INBOX, Buffer
from weft.strategies import ParameterServer
from weft.testing.peers import P0, P1, TWO, peer_of, received

SUM0, SUM1 = Buffer("closing.sum", 0), Buffer("closing.sum", 1)
FIRST, OTHER = 2, 3
BOTH = {"members": "3", "carried": "0"}
NOBODY = {"members": "0", "carried": "0"}


def server_of(me: int) -> Any:
    """One of two servers with a bucket each, for two workers."""
    return peer_of(ParameterServer(servers=2), me, num_workers=2, buckets=TWO)


def push(worker: int, clock: int, bucket: int = 0, samples: float = 1.0) -> Received:
    return received(worker, "push", clock, bucket, samples)


def said(source: int, kind: str, clock: int, data: Data) -> Received:
    return received(source, kind, clock, data=data)


def whole(clock: int, workers: str) -> Received:
    return said(OTHER, "whole", clock, {"workers": workers})


def changed(view: int, *workers: int) -> MembersChanged:
    return MembersChanged(view, (*workers, FIRST, OTHER), "somebody else")


def answers(clock: int, bucket: int, *workers: int) -> list[Action]:
    return [Send(worker, "params", clock, bucket, (P0, P1)[bucket]) for worker in workers]


def applied(total: float, bucket: int, num_members: int = 2) -> list[Action]:
    sums, params = (SUM0, SUM1)[bucket], (P0, P1)[bucket]
    return [*[Note("staleness", 0)] * num_members, Combine(sums, 1 / total), Apply(sums, params)]


def copy_of(worker: int, version: int, bucket: int) -> Received:
    return Received(worker, "copy", version, bucket, Buffer(INBOX, bucket), 1.0, {})
