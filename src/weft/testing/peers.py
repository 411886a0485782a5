"""Peers without a driver: one node of a small world, the events to tell it, and what it refuses."""

import json
from collections.abc import Sequence
from random import Random
from typing import Any

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
    """The peer of node `me` in a world of `num_workers` (and the servers of `strategy`), with the seed 0."""
    world = World(strategy.roles(num_workers), tuple(buckets), strategy.graph(num_workers))
    return strategy.peer(me, world, Random(0))


def tell(peer: Any, *events: Event) -> list[Any]:
    """Tells the peer these events, all at time 0; returns the actions of its answer to the last.

    They are Any to type checkers: a test knows which kind of action it looks into.
    """
    answers = [list(peer.handle(event, 0.0)) for event in events]
    return answers[-1]


def received(
    source: int, kind: str, clock: int = 0, bucket: int = 0, weight: float = 1.0, data: Data | None = None
) -> Received:
    """A message with a body, unless it carries data."""
    body = Buffer(INBOX, bucket) if data is None else None
    return Received(source, kind, clock, bucket, body, weight, data)


def bodiless(source: int, kind: str, clock: int = 0, bucket: int = 0) -> Received:
    """A message that carries neither a body nor data."""
    return Received(source, kind, clock, bucket, None, 1.0, None)


def returned(target: int, kind: str, clock: int = 0, bucket: int = 0, weight: float = 1.0, view: int = 0) -> Returned:
    """A message that did not arrive, as its sender gets it back."""
    return Returned(target, kind, clock, bucket, Buffer(INBOX, bucket), weight, None, view)


def members(*workers: int, view: int = 1) -> MembersChanged:
    """The event that only these members are left, because others were lost."""
    return MembersChanged(view, workers, "lost")


def refusal(peer: Any, event: Event) -> str:
    """The message with which a peer refuses an event; AssertionError if it takes it, or if the story lacks it."""
    try:
        peer.handle(event, 0.0)
    except UnexpectedMessage as error:
        if str(event) not in error.story:
            raise AssertionError(f"{event} is not in the story of its refusal") from error
        return error.message
    raise AssertionError(f"the peer took {event}, which it was to refuse")


def is_plain(peer: Any) -> bool:
    """The peer's snapshot survives JSON unchanged: it holds plain data only (rule 1 of docs/architecture.md)."""
    snapshot = peer.snapshot()
    return bool(json.loads(json.dumps(snapshot)) == snapshot)
