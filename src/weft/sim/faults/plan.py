"""Faults as an options record: what goes wrong in a simulated run, to whom and when. Plain data, so that a failing
schedule can be printed, shrunk and kept as a test."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from weft.core.names import NodeId


@dataclass(frozen=True)
class Crash:
    """The process of a worker dies, with the servers that sit there, which the engine starts anew elsewhere."""

    worker: NodeId
    at_s: float


@dataclass(frozen=True)
class Pause:
    """A process stands still; past the fence it is no longer a member when it wakes."""

    worker: NodeId
    at_s: float
    duration_s: float


@dataclass(frozen=True)
class Slow:
    """Iterations that a worker begins meanwhile take so many times as long."""

    worker: NodeId
    at_s: float
    duration_s: float
    factor: float


@dataclass(frozen=True)
class Loss:
    """The channel between two nodes breaks; when that is noticed, what was under way on it is returned."""

    source: NodeId
    target: NodeId
    at_s: float
    duration_s: float


@dataclass(frozen=True)
class Spike:
    """All messages sent meanwhile take so much longer."""

    at_s: float
    duration_s: float
    extra_s: float


@dataclass(frozen=True)
class Partition:
    """Some processes are cut off from all others and from the engine's store; past the fence they are out."""

    workers: tuple[NodeId, ...]
    at_s: float
    duration_s: float


@dataclass(frozen=True)
class Duplicates:
    """Every message sent meanwhile comes a second time, some time later."""

    at_s: float
    duration_s: float
    later_s: float


@dataclass(frozen=True)
class Skew:
    """A node's clock is ahead by an offset and runs at a rate of its own."""

    node: NodeId
    offset_s: float
    rate: float


@dataclass(frozen=True)
class NonFiniteGradient:
    """A worker's gradient of one step is not a number."""

    worker: NodeId
    step: int


@dataclass(frozen=True)
class EarlyFinish:
    """A worker's script ends after so many steps, before the others'."""

    worker: NodeId
    steps: int


@dataclass(frozen=True)
class Join:
    """A worker of the world is not there at the start, and comes some time later."""

    worker: NodeId
    at_s: float


@dataclass(frozen=True)
class Rejoin:
    """A worker that was lost is replaced: a new process comes in its place, with nothing of what that one had."""

    worker: NodeId
    at_s: float


Joins = Join | Rejoin
Fault = Crash | Pause | Slow | Loss | Spike | Partition | Duplicates | Skew | NonFiniteGradient | EarlyFinish | Joins
KINDS: tuple[type, ...] = (Crash, Pause, Slow, Loss, Spike, Partition, Duplicates, Skew, NonFiniteGradient, EarlyFinish)
JOINS = (Join, Rejoin)
"""Faults of their own kind: they are only for strategies that welcome newcomers."""

Window = TypeVar("Window", Slow, Spike, Duplicates)
"""Faults that change what begins while they last, and nothing else."""


@dataclass(frozen=True)
class Faults:
    """All that goes wrong in a run, and how soon the engine's store notices."""

    schedule: tuple[Fault, ...] = ()
    notice_s: float = 0.1
    """From a death to the change of members; also until a fenced process is told that it is out."""
    fence_s: float = 2.0
    """Who has not been heard of for so long is no longer a member."""
    linger_s: float = 0.1
    """How long a worker whose script has ended stays a member, for others who may still be about to end with it."""
    news_s: float = 0.01
    """By so much the times differ at which members hear of a change."""
    start_s: float = 0.0
    """Seconds of a core from the start of a lost worker's new process until it asks to come in."""
    rest_s: float = 0.0
    """How long the world is at rest before newcomers come in."""

    def active(self, kind: type[Window], now_s: float) -> list[Window]:
        """The faults of a kind that last at this time; asked for every message."""
        windows: list[Window] = self._by_kind.get(kind, [])
        return [window for window in windows if window.at_s <= now_s < window.at_s + window.duration_s]

    @cached_property
    def _by_kind(self) -> dict[type, list[Any]]:
        return {kind: [fault for fault in self.schedule if type(fault) is kind] for kind in map(type, self.schedule)}

    @property
    def has_joins(self) -> bool:
        """Newcomers come."""
        return any(isinstance(fault, JOINS) for fault in self.schedule)

    @property
    def over_s(self) -> float:
        """When the last fault that has an end is over, and the engine has dealt with it."""
        timed = [fault for fault in self.schedule if not isinstance(fault, Skew | NonFiniteGradient | EarlyFinish)]
        ends = [fault.at_s + getattr(fault, "duration_s", 0.0) for fault in timed]
        return max(ends, default=0.0) + self.fence_s + 2 * self.notice_s + self.linger_s
