"""Who can reach whom: partitions between processes, and channels that are broken."""

from collections.abc import Callable, Iterable
from typing import Any

from weft.core.names import NodeId
from weft.sim.faults.in_flight import FailableNode


class Reach:
    """Keeps what is cut off. The engine's store is never on the far side of a partition."""

    def __init__(self) -> None:
        self._cut: set[NodeId] = set()
        """Processes on the far side of a partition."""
        self._broken: set[tuple[NodeId, NodeId]] = set()
        """Channels, as (source, target)."""
        self._withheld: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        """What a partition holds up, besides messages."""

    def cut(self, processes: Iterable[NodeId]) -> None:
        self._cut.update(processes)

    def heal(self, processes: Iterable[NodeId]) -> None:
        """The partition is over; what it held up waits for `release`."""
        self._cut.difference_update(processes)

    def sever(self, source: NodeId, target: NodeId) -> None:
        """Break a channel."""
        self._broken.add((source, target))

    def mend(self, source: NodeId, target: NodeId) -> None:
        self._broken.discard((source, target))

    def is_cut_off(self, source: FailableNode, target: FailableNode) -> bool:
        """A message cannot come in now, though its target lives."""
        is_across = (source.process in self._cut) != (target.process in self._cut)
        return is_across or (source.id, target.id) in self._broken

    def is_cut(self, processes: Iterable[NodeId]) -> bool:
        """Some of these processes are on the far side of a partition."""
        return not self._cut.isdisjoint(processes)

    def is_out_of_reach(self, process: NodeId, callback: Callable[..., None], *args: Any) -> bool:
        """The store and a process cannot reach each other: what one wants of the other waits."""
        if process in self._cut:
            self._withheld.append((callback, args))
        return process in self._cut

    def is_split(self, group: Iterable[FailableNode], callback: Callable[..., None], *args: Any) -> bool:
        """A group is on both sides of a partition: what it wants to do together waits."""
        is_split = len({node.process in self._cut for node in group}) > 1
        if is_split:
            self._withheld.append((callback, args))
        return is_split

    def release(self) -> None:
        """What was held up goes on, in order; it may be held up again."""
        withheld, self._withheld = self._withheld, []
        for callback, args in withheld:
            callback(*args)
