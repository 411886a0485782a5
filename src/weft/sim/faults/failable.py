"""Nodes that may stand still or be gone: what comes due for one that stands still waits until it wakes."""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, TypeVar, cast

from weft.core.names import NodeId
from weft.core.peer import Peer
from weft.core.world import World
from weft.sim.compute import ComputeTime
from weft.sim.faults.in_flight import FailableNode
from weft.sim.faults.plan import Faults, Skew, Slow
from weft.sim.kernel import Kernel
from weft.sim.program import Program
from weft.store.store import Store

C = TypeVar("C", bound=Callable[..., None])


class FailableLiveness:
    """A node does what it does only while its process runs, by its own clock."""

    def __init__(self, kernel: Kernel, world: World, faults: Faults) -> None:
        self._kernel = kernel
        self._world = world
        self._faults = faults
        self._present: dict[NodeId, FailableNode] = {}
        self.incarnations: list[FailableNode] = []
        """All nodes that ever were: one that was started anew has several."""

    def new_node(self, id: NodeId, peer: Peer, store: Store, program: Program | None) -> FailableNode:
        """A node on the process where it belongs. Clocks are skewed from the start, or never."""
        node = FailableNode(id, peer, store, program, id % self._world.num_workers, peer.world.view)
        for fault in self._faults.schedule:
            if isinstance(fault, Skew) and fault.node == id and id not in self._present:
                node.offset_s, node.rate = fault.offset_s, fault.rate
        self._present[id] = node
        self.incarnations.append(node)
        return node

    def node(self, id: NodeId) -> FailableNode:
        """The present incarnation of a node."""
        return self._present[id]

    def is_present(self, node: FailableNode) -> bool:
        """It has not been started anew elsewhere."""
        return self._present[node.id] is node

    def is_able(self, node: FailableNode, callback: Callable[..., None], *args: Any) -> bool:
        """A node can act now; if it stands still, `callback` is called when it wakes."""
        if node.is_paused and not node.is_gone:
            node.backlog.append((callback, args))
        return not (node.is_gone or node.is_paused)

    def when_able(self, callback: C) -> C:
        def called_when_able(node: FailableNode, *args: Any) -> None:
            if self.is_able(node, called_when_able, node, *args):
                callback(node, *args)

        return cast("C", called_when_able)

    def slowed(self, compute: ComputeTime) -> ComputeTime:
        return SlowedCompute(compute, self._kernel, self._faults)

    def due_ns(self, node: FailableNode, at_s: float) -> int:
        return node.due_ns(at_s)

    def is_gone(self, node: FailableNode) -> bool:
        return node.is_gone

    def on_process(self, process: NodeId) -> list[FailableNode]:
        """The nodes that a process still runs, be they members or not."""
        return [node for node in self.incarnations if node.process == process and not node.is_gone]

    def pause(self, process: NodeId) -> None:
        for node in self.on_process(process):
            node.is_paused = True

    def wake(self, process: NodeId) -> None:
        """A process goes on; what came due meanwhile happens now, in order."""
        for node in self.on_process(process):
            node.is_paused = False
            backlog, node.backlog = node.backlog, []
            for callback, args in backlog:
                callback(*args)

    def end(self, nodes: Iterable[FailableNode]) -> None:
        """These nodes do nothing any more."""
        for node in nodes:
            node.is_gone = True

    def move(self, node: FailableNode, process: NodeId) -> None:
        """Let a node that has just been made run on another process than where it belongs."""
        node.is_paused = any(other.is_paused for other in self._present.values() if other.process == process)
        node.process = process


class SlowedCompute:
    """The time of iterations, which is longer for those that begin while their worker is slow."""

    def __init__(self, compute: ComputeTime, kernel: Kernel, faults: Faults) -> None:
        self._compute = compute
        self._kernel = kernel
        self._faults = faults

    def seconds(self, worker: int, step: int, samples: float, rng: Random) -> float:
        seconds = self._compute.seconds(worker, step, samples, rng)
        for slow in self._faults.active(Slow, self._kernel.now_s):
            if slow.worker == worker:
                seconds *= slow.factor
        return seconds
