"""Peers without a driver: one node of a small world, the facts to tell it, and what it refuses."""

import json
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from weft.core.actions import Action
from weft.core.errors import UnexpectedMessage
from weft.core.events import Data, Event, MembersChanged, Received, Returned
from weft.core.names import GRADIENT, INBOX, PARAMS, Bucket, Buffer
from weft.core.strategy import Strategy
from weft.core.world import World

ONE = (Bucket(4),)
TWO = (Bucket(4), Bucket(2))
WITH_STATE = (Bucket(4), Bucket(2, trainable=False))

G0, G1 = Buffer(GRADIENT, 0), Buffer(GRADIENT, 1)
P0, P1 = Buffer(PARAMS, 0), Buffer(PARAMS, 1)
IN0, IN1 = Buffer(INBOX, 0), Buffer(INBOX, 1)


def peer_of(strategy: Strategy, me: int = 0, num_workers: int = 3, buckets: Sequence[Bucket] = ONE) -> Any:
    """The protocol object of one node; seed 0."""
    world = World(strategy.roles(num_workers), tuple(buckets), strategy.graph(num_workers))
    return strategy.peer(me, world, Random(0))


def tell(peer: Any, *events: Event) -> list[Action]:
    """Tell these facts; what the peer answers to the last."""
    answers = [list(peer.handle(event, 0.0)) for event in events]
    return answers[-1]


def received(
    source: int, kind: str, clock: int = 0, bucket: int = 0, weight: float = 1.0, data: Data | None = None
) -> Received:
    """A message with a body, unless it carries data."""
    body = Buffer(INBOX, bucket) if data is None else None
    return Received(source, kind, clock, bucket, body, weight, data)


def bodiless(source: int, kind: str, clock: int = 0, bucket: int = 0) -> Received:
    return Received(source, kind, clock, bucket, None, 1.0, None)


def returned(target: int, kind: str, clock: int = 0, bucket: int = 0, weight: float = 1.0, view: int = 0) -> Returned:
    return Returned(target, kind, clock, bucket, Buffer(INBOX, bucket), weight, None, view)


def members(*workers: int, view: int = 1) -> MembersChanged:
    """Only these are left."""
    return MembersChanged(view, workers, "lost")


def refusal(peer: Any, event: Event) -> str:
    """The message with which a peer refuses an event; the error tells the story as well."""
    with pytest.raises(UnexpectedMessage) as caught:
        peer.handle(event, 0.0)
    assert str(event) in caught.value.story
    return caught.value.message


def is_plain(peer: Any) -> bool:
    """A snapshot that survives JSON unchanged."""
    snapshot = peer.snapshot()
    return bool(json.loads(json.dumps(snapshot)) == snapshot)
