"""Newcomers without a driver: a peer that comes into a run, what it is sent, and how others hear of it."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from weft.core.actions import Send
from weft.core.events import Data, MembersChanged, Received
from weft.core.names import INBOX, PARAMS, WELCOME, Bucket, Buffer
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.testing.peers import ONE, peer_of, tell

NEWCOMER = 1
LEFT, CAME = 4, 5
"""The views in which worker 1 was lost, and in which it comes again."""


def without(num_nodes: int) -> MembersChanged:
    """The news that worker 1 was lost."""
    return MembersChanged(LEFT, tuple(node for node in range(num_nodes) if node != NEWCOMER), "lost worker 1")


def joined(num_nodes: int) -> MembersChanged:
    """The news that another process comes in its place."""
    return MembersChanged(CAME, tuple(range(num_nodes)), "joined worker 1")


def newcomer_of(strategy: Strategy, buckets: Sequence[Bucket] = ONE) -> Any:
    """Worker 1 of three, which has heard that it has come, and was not welcomed yet."""
    world = World(strategy.roles(3), tuple(buckets), strategy.graph(3))
    peer = strategy.peer(NEWCOMER, replace(world, view=CAME), Random(0))
    assert tell(peer, joined(world.num_nodes)) == []
    return peer


def with_newcomer(strategy: Strategy, me: int, buckets: Sequence[Bucket] = ONE) -> list[Any]:
    """What node `me`, which has done nothing until then, answers when worker 1 is lost and another one comes."""
    num_nodes = sum(strategy.roles(3))
    peer = peer_of(strategy, me, buckets=buckets)
    tell(peer, without(num_nodes))
    return tell(peer, joined(num_nodes))


def gives(clock: int, bucket: int = 0, slot: str = PARAMS) -> Send:
    """A bucket on its way to the newcomer."""
    return Send(NEWCOMER, WELCOME, clock, bucket, Buffer(slot, bucket), data={"slot": slot})


def given(source: int, clock: int, bucket: int = 0, slot: str = PARAMS) -> Received:
    """The same when it arrives."""
    return Received(source, WELCOME, clock, bucket, Buffer(INBOX, bucket), 1.0, {"slot": slot})


def handed(source: int, data: Data) -> Received:
    """What the sponsor says of where the run is."""
    return Received(source, WELCOME, 0, 0, None, 1.0, data)
