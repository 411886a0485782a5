"""Newcomers without a driver: a peer that comes into a run, what it is sent, and how others hear of it."""

from collections.abc import Sequence
from random import Random
from typing import Any

from weft.core.actions import Send
from weft.core.events import MembersChanged, Received, Started
from weft.core.names import INBOX, PARAMS, WELCOME, Bucket, Buffer
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.testing.peers import ONE, peer_of, tell

NEWCOMER = 1
LEFT, CAME = 4, 5
"""The views in which worker 1 was lost, and in which it comes again."""


def joined(*nodes: int, view: int = 2) -> MembersChanged:
    """These are the members now; who was none before is a newcomer."""
    return MembersChanged(view, nodes, "joined")


def without(num_nodes: int) -> MembersChanged:
    """The news that worker 1 was lost."""
    return MembersChanged(LEFT, tuple(node for node in range(num_nodes) if node != NEWCOMER), "lost worker 1")


def came_again(num_nodes: int) -> MembersChanged:
    """The news that another process comes in its place."""
    return joined(*range(num_nodes), view=CAME)


def newcomer(
    strategy: Strategy, me: int, *nodes: int, num_workers: int = 4, buckets: Sequence[Bucket] = ONE, view: int = 2
) -> Any:
    """The peer of a newcomer in a world of so many workers, told who is there, and not welcomed yet."""
    world = World(strategy.roles(num_workers), tuple(buckets), strategy.graph(num_workers), view=view)
    peer = strategy.peer(me, world, Random(0))
    assert tell(peer, Started(view), joined(*nodes, view=view)) == []
    return peer


def newcomer_of(strategy: Strategy, buckets: Sequence[Bucket] = ONE) -> Any:
    """Worker 1 of three, among all others."""
    nodes = range(sum(strategy.roles(3)))
    return newcomer(strategy, NEWCOMER, *nodes, num_workers=3, buckets=buckets, view=CAME)


def with_newcomer(strategy: Strategy, me: int, buckets: Sequence[Bucket] = ONE) -> list[Any]:
    """What node `me`, which has done nothing until then, answers when worker 1 is lost and another one comes."""
    num_nodes = sum(strategy.roles(3))
    peer = peer_of(strategy, me, buckets=buckets)
    tell(peer, without(num_nodes))
    return tell(peer, came_again(num_nodes))


def gives(clock: int, bucket: int = 0, slot: str = PARAMS) -> Send:
    """A bucket on its way to the newcomer."""
    return Send(NEWCOMER, WELCOME, clock, bucket, Buffer(slot, bucket), data={"slot": slot})


def given(source: int, clock: int, bucket: int = 0, slot: str = PARAMS, weight: float = 1.0) -> Received:
    """The same when it arrives."""
    return Received(source, WELCOME, clock, bucket, Buffer(INBOX, bucket), weight, {"slot": slot})


def handed(source: int, step: int, **data: object) -> Received:
    """What the sponsor says of where the run is."""
    return Received(source, WELCOME, step, 0, None, 1.0, {"step": step, **data})
