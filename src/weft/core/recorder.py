"""The recorder: the trace hash of a run, and, when asked for, all events and actions for a replay."""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import blake2b
from random import Random
from typing import Any
from zlib import crc32

from weft.core.actions import Action
from weft.core.events import (
    EpochFinished,
    Event,
    GradientReady,
    MembersChanged,
    PortionAsked,
    Received,
    Reduced,
    Returned,
    Started,
    StepFinished,
    TimerFired,
)
from weft.core.names import NodeId
from weft.core.peer import Peer
from weft.core.strategy import Strategy
from weft.core.world import World

_NAMES: dict[str, int] = {}


def _number(name: str) -> int:
    number = _NAMES.get(name)
    if number is None:
        number = _NAMES[name] = crc32(name.encode())
    return number


Integers = tuple[int, int, int]

_INTEGERS: dict[type, Callable[[Any], Integers]] = {
    Started: lambda e: (1, e.view, 0),
    GradientReady: lambda e: (2, e.step, e.bucket),
    StepFinished: lambda e: (3, e.step, 0),
    EpochFinished: lambda e: (4, e.epoch, 0),
    Received: lambda e: (e.source << 8 | 5, e.clock, _number(e.kind) << 16 | e.bucket),
    Returned: lambda e: (e.target << 8 | 6, e.clock, _number(e.kind) << 16 | e.bucket),
    Reduced: lambda e: (7, e.clock, _number(e.buffer.slot) << 16 | e.buffer.bucket),
    TimerFired: lambda e: (8, 0, _number(e.name)),
    MembersChanged: lambda e: (9, e.view, len(e.members)),
    PortionAsked: lambda e: (10, e.share, e.num_portions),
}

FLUSH_AT = 1 << 14


class TraceHash:
    """Hashes every event of a run as integers: virtual nanoseconds, node, kind, clock, bucket."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=8)
        self._pending: list[tuple[int, NodeId, Event]] = []

    def record(self, now_ns: int, node: NodeId, event: Event, actions: Sequence[Action]) -> None:
        self._pending.append((now_ns, node, event))
        if len(self._pending) >= FLUSH_AT:
            self._flush()

    def _flush(self) -> None:
        integers = array("q")
        for now_ns, node, event in self._pending:
            integers.extend((now_ns, node, *_INTEGERS[type(event)](event)))
        self._hash.update(integers.tobytes())
        self._pending.clear()

    def hexdigest(self) -> str:
        """Sixteen hexadecimal digits: the same for the same seed and commit."""
        self._flush()
        return self._hash.hexdigest()


class Recording(TraceHash):
    """A trace hash that also keeps everything, so that a run can be replayed into fresh peers."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[tuple[int, NodeId, Event, Sequence[Action]]] = []

    def record(self, now_ns: int, node: NodeId, event: Event, actions: Sequence[Action]) -> None:
        super().record(now_ns, node, event, actions)
        self.entries.append((now_ns, node, event, actions))


def node_rng(seed: int, node: NodeId) -> Random:
    """The random numbers that a run's seed gives to one node."""
    return Random(f"peer/{seed}/{node}")


def replay(recording: Recording, strategy: Strategy, world: World, seed: int) -> list[str]:
    """Feed the recorded events to fresh peers; say where their actions differ from the recorded ones."""
    peers: dict[NodeId, Peer] = {}
    differences = []
    for i, (now_ns, node, event, actions) in enumerate(recording.entries):
        if isinstance(event, Started):  # a server that was moved starts more than once
            now_world = replace(world, view=event.view)
            peers[node] = strategy.peer(node, now_world, node_rng(seed + event.view, node))
        again = peers[node].handle(event, now_ns / 1_000_000_000)
        if list(again) != list(actions):
            differences.append(f"entry {i}: {world.name(node)} answered {event} with {again}, not {actions}")
    return differences
