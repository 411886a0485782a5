"""Newcomers without a driver: the peer of one, and the events that it and the others are told."""

from collections.abc import Sequence
from random import Random
from typing import Any

from weft.core.events import MembersChanged, Received, Started
from weft.core.names import INBOX, PARAMS, WELCOME, Bucket, Buffer
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.testing.peers import ONE, tell


def joined(*workers: int, view: int = 2) -> MembersChanged:
    """These are the members now; who was none before is a newcomer."""
    return MembersChanged(view, workers, "joined")


def newcomer(
    strategy: Strategy, me: int, *workers: int, num_workers: int = 4, buckets: Sequence[Bucket] = ONE, view: int = 2
) -> Any:
    """The peer of a newcomer in a world of so many workers, told who is there."""
    world = World(strategy.roles(num_workers), tuple(buckets), strategy.graph(num_workers), view=view)
    peer = strategy.peer(me, world, Random(0))
    assert tell(peer, Started(view), joined(*workers, view=view)) == []
    return peer


def given(source: int, step: int, bucket: int = 0, slot: str = PARAMS, weight: float = 1.0) -> Received:
    """A newcomer is given a bucket of a slot."""
    return Received(source, WELCOME, step, bucket, Buffer(INBOX, bucket), weight, {"slot": slot})


def handed(source: int, **data: object) -> Received:
    """A newcomer is told where the run is."""
    return Received(source, WELCOME, int(str(data["step"])), 0, None, 1.0, data)
