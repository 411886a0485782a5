"""The driver in virtual time when things go wrong: faults happen by schedule, members change, promises are kept."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from weft.core.actions import Compute, Reduce
from weft.core.events import MembersChanged, Started
from weft.core.names import NodeId
from weft.core.recorder import TraceHash, node_rng
from weft.core.script_state import ENDED
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.sim.arbiter import View
from weft.sim.compute import ComputeTime
from weft.sim.faults.delivery import DeliverySimulation
from weft.sim.faults.in_flight import RECEIVED, FailableNode, MessageInFlight
from weft.sim.faults.plan import Crash, Duplicates, Faults, Loss, Partition, Pause, Skew, Slow, Spike
from weft.sim.kernel import to_ns
from weft.sim.network import Network
from weft.sim.node import SimulatedNode
from weft.sim.program import Program
from weft.sim.reports import Reports
from weft.store.store import Store


class FaultySimulation(DeliverySimulation):
    """A simulation in which nodes die, stand still, lie about the time and lose each other's messages.

    `new_store` makes the empty tensors of a server that is started anew.
    """

    def __init__(
        self,
        strategy: Strategy,
        world: World,
        stores: Sequence[Store],
        programs: Sequence[Program],
        network: Network,
        compute: ComputeTime,
        reports: Reports,
        faults: Faults,
        new_store: Callable[[NodeId], Store],
        seed: int = 0,
        recorder: TraceHash | None = None,
    ) -> None:
        super().__init__(strategy, world, stores, programs, network, compute, reports, faults.news_s, seed, recorder)
        self.faults = faults
        self._strategy = strategy
        self._ahead: list[FailableNode] = []
        """Workers that have ended, but stay until the others have made their last step."""
        self._new_store = new_store
        self._seed = seed
        self._dead: set[NodeId] = set()
        """Processes that will never be members again."""
        self._cut: set[NodeId] = set()
        """Processes on the far side of a partition."""
        self._broken: set[tuple[NodeId, NodeId]] = set()
        """Channels, as (source, target)."""
        self._withheld: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        """What a partition holds up, besides messages."""
        self._incarnations = list(self.nodes)
        """All nodes that ever were: a server that is moved has several."""
        self._windows = [fault for fault in faults.schedule if isinstance(fault, Slow | Spike | Duplicates)]
        for fault in faults.schedule:
            self._plan(fault)

    def _plan(self, fault: object) -> None:
        at = self.kernel.at
        if isinstance(fault, Crash):
            at(to_ns(fault.at_s), self._crash, (fault.worker,))
        elif isinstance(fault, Pause):
            at(to_ns(fault.at_s), self._pause, (fault.worker,))
            at(to_ns(fault.at_s + fault.duration_s), self._wake, (fault.worker,))
            if fault.duration_s > self.faults.fence_s:
                at(to_ns(fault.at_s + self.faults.fence_s), self._fence, ((fault.worker,), fault.duration_s))
        elif isinstance(fault, Loss):
            at(to_ns(fault.at_s), self._broken.add, ((fault.source, fault.target),))
            at(to_ns(fault.at_s + fault.duration_s), self._mend, (fault.source, fault.target))
        elif isinstance(fault, Partition):
            at(to_ns(fault.at_s), self._cut.update, (fault.workers,))
            at(to_ns(fault.at_s + fault.duration_s), self._heal, (fault.workers,))
            if fault.duration_s > self.faults.fence_s:
                at(to_ns(fault.at_s + self.faults.fence_s), self._fence, (fault.workers, fault.duration_s))
        elif isinstance(fault, Skew):
            self.nodes[fault.node].offset_s, self.nodes[fault.node].rate = fault.offset_s, fault.rate

    def _active(self, kind: type) -> list[Any]:
        now_s = self.kernel.now_s
        return [w for w in self._windows if isinstance(w, kind) and w.at_s <= now_s < w.at_s + w.duration_s]

    def _seconds(self, node: SimulatedNode, samples: float) -> float:
        seconds = super()._seconds(node, samples)
        for slow in self._active(Slow):
            if slow.worker == node.id:
                seconds *= slow.factor
        return seconds

    def _carry(self, message: MessageInFlight, time_ns: int) -> None:
        time_ns += sum(to_ns(spike.extra_s) for spike in self._active(Spike))
        super()._carry(message, time_ns)
        for again in self._active(Duplicates):
            self.kernel.at(time_ns + to_ns(again.later_s), self._arrive_again, (message,))

    def _arrive_again(self, message: MessageInFlight) -> None:
        node = self.nodes[message.target]
        if message.fate is not RECEIVED or node.is_gone or node.is_paused or message.view != node.view:
            return
        self._take(node, message)

    def _is_cut_off(self, message: MessageInFlight) -> bool:
        a, b = message.sender.process in self._cut, self.nodes[message.target].process in self._cut
        return a != b or (message.sender.id, message.target) in self._broken

    def _mend(self, source: NodeId, target: NodeId) -> None:
        """That a channel broke is noticed: all that is under way on it is returned, and it works again."""
        self._broken.discard((source, target))
        node = self.nodes[source]
        if not self._is_able(node, self._mend, source, target):
            return
        self._return(node, self._close(node, lambda message: message.target == target and message.view == node.view))

    def _heal(self, workers: Sequence[NodeId]) -> None:
        """The partition is over: what was held up goes on, in order."""
        self._cut.difference_update(workers)
        for node in self._incarnations:
            for message in tuple(node.outbox):
                if message.has_come:
                    self._arrive(message)
        withheld, self._withheld = self._withheld, []
        for callback, args in withheld:
            callback(*args)

    def _is_out_of_reach(self, process: NodeId, callback: Callable[..., None], *args: Any) -> bool:
        """The store and a process cannot reach each other: what one wants of the other waits."""
        if process in self._cut:
            self._withheld.append((callback, args))
        return process in self._cut

    def _join(self, node: SimulatedNode, action: Reduce) -> None:
        """A reduction across a partition waits."""
        cut = [id for id in action.group if self.nodes[id].process in self._cut]
        if 0 < len(cut) < len(action.group):
            self._withheld.append((self._join, (node, action)))
        else:
            super()._join(node, action)

    def _on_process(self, worker: NodeId) -> list[FailableNode]:
        return [node for node in self._incarnations if node.process == worker and not node.is_gone]

    def _crash(self, worker: NodeId) -> None:
        self._dead.add(worker)
        lost = self._on_process(worker)
        for node in lost:
            node.is_gone = True
        self.kernel.at(self.kernel.now_ns + to_ns(self.faults.notice_s), self._replace, (lost, "lost"))

    def _pause(self, worker: NodeId) -> None:
        for node in self._on_process(worker):
            node.is_paused = True

    def _wake(self, worker: NodeId) -> None:
        for node in self._on_process(worker):
            node.is_paused = False
            backlog, node.backlog = node.backlog, []
            for callback, args in backlog:
                callback(*args)

    def _fence(self, workers: Sequence[NodeId], silent_s: float) -> None:
        """Processes that were silent for too long are out; they may run on for a while, in their old view."""
        lost = [node for worker in workers for node in self._on_process(worker)]
        self._dead.update(workers)
        self._replace(lost, "fenced")
        told_s = silent_s - self.faults.fence_s + self.faults.notice_s
        self.kernel.at(self.kernel.now_ns + to_ns(told_s), self._end, (lost,))

    def _end(self, nodes: Sequence[FailableNode]) -> None:
        for node in nodes:
            node.is_gone = True

    def _replace(self, lost: Sequence[FailableNode], how: str) -> None:
        """Commit a view without these nodes, in which their servers are started anew."""
        members = self.arbiter.view.members
        lost = [node for node in lost if self.nodes[node.id] is node and node.id in members]
        if not lost:
            return
        names = [self.world.name(node.id) for node in lost]
        leaving = [node.id for node in lost if node.id < self.world.num_workers]
        moved = [node for node in lost if node.id >= self.world.num_workers]
        reason = f"{how} {', '.join(names)}"
        if moved:
            process = min(set(self.world.workers) - self._dead)
            reason += (
                f"; moved {', '.join(self.world.name(node.id) for node in moved)} to the process of worker {process}"
            )
        view = self._decide(leaving, reason)
        for node in moved:
            self._move(node.id, process, view)
        self._let_leave()

    def _move(self, id: NodeId, process: NodeId, view: View) -> None:
        world = replace(self.world, view=view.number)
        peer = self._strategy.peer(id, world, node_rng(self._seed + view.number, id))
        node = FailableNode(id, peer, self._new_store(id), None, process, view.number)
        node.is_paused = any(other.is_paused for other in self.nodes if other.process == process)
        self.nodes[id] = node
        self._incarnations.append(node)
        self.kernel.at(self.kernel.now_ns, self._start_anew, (node, view))

    def _start_anew(self, node: FailableNode, view: View) -> None:
        if self._is_able(node, self._start_anew, node, view):
            self._deliver(node, Started(view.number))
            self._deliver(node, MembersChanged(view.number, view.members, view.reason))

    def _end_script(self, node: SimulatedNode) -> None:
        super()._end_script(node)
        assert isinstance(node, FailableNode)
        self.kernel.at(self.kernel.now_ns + to_ns(self.faults.linger_s), self._take_leave, (node,))

    def _take_leave(self, node: FailableNode) -> None:
        """Others go on: it leaves, unless they may need what only it has, its last step being ahead of theirs."""
        others = [self.nodes[id] for id in self.arbiter.view.members if id < self.world.num_workers]
        if self._strategy.keeps_step and not all(other.has_begun(node.step) for other in others):
            self._ahead.append(node)
        elif any(other.script.at is not ENDED for other in others):
            node.is_leaving = True
            self._leave_if_done(node)

    def _start_compute(self, node: SimulatedNode, action: Compute) -> None:
        super()._start_compute(node, action)
        self._let_leave()

    def _let_leave(self) -> None:
        ahead, self._ahead = self._ahead, []
        for node in ahead:
            self.kernel.at(self.kernel.now_ns, self._take_leave, (node,))
