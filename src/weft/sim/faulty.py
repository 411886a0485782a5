"""The driver in virtual time when things go wrong: faults happen by schedule, promises are kept (decision 0017)."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from weft.core.actions import Reduce, Send
from weft.core.events import Event, GradientReady, MembersChanged, Received, Started
from weft.core.names import GRADIENT, NodeId
from weft.core.peer import Peer
from weft.core.recorder import TraceHash, node_rng
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.sim.arbiter import Arbiter, View
from weft.sim.compute import ComputeTime
from weft.sim.faults import Crash, Duplicates, Faults, Loss, Partition, Pause, Skew, Slow, Spike
from weft.sim.kernel import to_ns
from weft.sim.letter import CLOSED, OPEN, RECEIVED, RETURNED, Letter, MortalNode
from weft.sim.network import Network
from weft.sim.node import ENDED, Node
from weft.sim.program import Program, StepDone
from weft.sim.reports import Reports
from weft.sim.simulation import Simulation
from weft.store.store import Payload, Store


class FaultySimulation(Simulation):
    """A simulation in which nodes die, stand still, lie about the time and lose each other's messages.

    `new_store` makes the empty tensors of a server that is started anew.
    """

    nodes: list[MortalNode]  # type: ignore[assignment]

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
        self._processes = [node % world.num_workers for node in range(world.num_nodes)]
        super().__init__(strategy, world, stores, programs, network, compute, reports, seed, recorder)
        self.faults = faults
        self.arbiter = Arbiter(range(world.num_nodes), world.view)
        self.num_duplicates = 0
        """Second comings that were removed."""
        self.num_refused = 0
        """Messages that came in another view than that of their sending."""
        self._strategy = strategy
        self._new_store = new_store
        self._seed = seed
        self._rng = Random(f"faults/{seed}")
        self._last_arrival_ns: dict[tuple[NodeId, NodeId], int] = {}
        self._dead: set[NodeId] = set()
        """Processes that will never do anything again."""
        self._cut: set[NodeId] = set()
        """Processes on the far side of a partition."""
        self._broken: set[tuple[NodeId, NodeId]] = set()
        self._withheld: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        """What a partition holds up, besides messages."""
        self._incarnations = list(self.nodes)
        self._windows = [fault for fault in faults.schedule if isinstance(fault, Slow | Spike | Duplicates)]
        for fault in faults.schedule:
            self._plan(fault)

    def _new_node(self, id: NodeId, peer: Peer, store: Store, program: Program | None) -> MortalNode:
        return MortalNode(id, peer, store, program, self._processes[id], self.world.view)

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

    # What a node does it does only while it can: what comes due for one that stands still waits until it wakes.

    def _is_able(self, node: Node, callback: Callable[..., None], *args: Any) -> bool:
        assert isinstance(node, MortalNode)
        if node.is_paused and not node.is_gone:
            node.backlog.append((callback, args))
        return not (node.is_gone or node.is_paused)

    def _deliver_to(self, node: NodeId, event: Event) -> None:
        if self._is_able(self.nodes[node], self._deliver_to, node, event):
            self._deliver(self.nodes[node], event)

    def _fire(self, node: Node, name: str, generation: int) -> None:
        if self._is_able(node, self._fire, node, name, generation):
            super()._fire(node, name, generation)

    def _fill(self, node: Node, event: GradientReady, is_last: bool) -> None:
        if self._is_able(node, self._fill, node, event, is_last):
            super()._fill(node, event, is_last)

    def _finish_step(self, node: Node, request: StepDone) -> None:
        if self._is_able(node, self._finish_step, node, request):
            assert isinstance(node, MortalNode)
            excluded, node.is_excluded = node.is_excluded, False
            super()._finish_step(node, StepDone(0.0, None) if excluded else request)

    def _due_ns(self, node: Node, at_s: float) -> int:
        assert isinstance(node, MortalNode)
        return node.due_ns(at_s)

    def _seconds(self, node: Node, samples: float) -> float:
        seconds = super()._seconds(node, samples)
        for slow in self._active(Slow):
            if slow.worker == node.id:
                seconds *= slow.factor
        return seconds

    def _schedule_gradients(self, node: Node, samples: float) -> None:
        assert isinstance(node, MortalNode)
        if not node.store.is_finite(GRADIENT):
            node.is_excluded = True
        super()._schedule_gradients(node, 0.0 if node.is_excluded else samples)

    def _is_stuck(self, node: Node) -> bool:
        assert isinstance(node, MortalNode)
        return not node.is_gone and super()._is_stuck(node)

    # Messages: received in the view of their sending, or returned.

    def _post(self, node: Node, action: Send, event: Received, size: int, payload: Payload, hyper: Any) -> None:
        assert isinstance(node, MortalNode)
        self.facts.bytes_sent += size
        letter = self._write(node, action.to, event, payload, hyper)
        if action.to not in self.arbiter.members_of(node.view):
            self.kernel.at(self.kernel.now_ns, self._return_at_once, (letter,))
            return
        time_ns, _ = self._network.send(node.id, action.to, size, self.kernel.now_ns)
        time_ns += sum(to_ns(spike.extra_s) for spike in self._active(Spike))
        channel = node.id, action.to
        time_ns = self._last_arrival_ns[channel] = max(time_ns, self._last_arrival_ns.get(channel, 0))
        self.kernel.at(time_ns, self._arrive, (letter,))
        for again in self._active(Duplicates):
            self.kernel.at(time_ns + to_ns(again.later_s), self._arrive_again, (letter,))

    def _write(self, node: MortalNode, to: NodeId, event: Received, payload: Payload, hyper: Any) -> Letter:
        number = node.num_sent[to] = node.num_sent.get(to, 0) + 1
        letter = Letter(node, to, event, payload, hyper, number)
        node.outbox.append(letter)
        return letter

    def _is_cut_off(self, letter: Letter) -> bool:
        a, b = letter.sender.process in self._cut, self.nodes[letter.target].process in self._cut
        return a != b or (letter.sender.id, letter.target) in self._broken

    def _arrive(self, letter: Letter) -> None:
        """A message stands at the door of its target; it stays open if it cannot come in."""
        node = self.nodes[letter.target]
        letter.has_come = True
        if letter.fate is not OPEN or node.is_gone or self._is_cut_off(letter):
            return
        if not self._is_able(node, self._arrive, letter):
            return
        if letter.view > node.view:
            node.early.append(letter)
        elif letter.view < node.view:
            self.num_refused += 1
        else:
            letter.fate = RECEIVED
            letter.sender.outbox.remove(letter)
            self._take(node, letter)
            self._leave_if_done(letter.sender)

    def _arrive_again(self, letter: Letter) -> None:
        node = self.nodes[letter.target]
        if letter.fate is not RECEIVED or node.is_gone or node.is_paused or letter.view != node.view:
            return
        self._take(node, letter)

    def _take(self, node: MortalNode, letter: Letter) -> None:
        if self._is_second_coming(node, letter):
            self.num_duplicates += 1
            return
        node.taken[letter.event.source] = letter.number
        self._receive(node, letter.event, letter.payload, letter.hyper)

    def _is_second_coming(self, node: MortalNode, letter: Letter) -> bool:
        return letter.number <= node.taken.get(letter.event.source, 0)

    def _return(self, node: MortalNode, letters: Sequence[Letter]) -> None:
        """Tell a node that these will never arrive."""
        if not self._is_able(node, self._return, node, letters):
            return
        for letter in letters:
            letter.fate = RETURNED
            node.store.receive(letter.event.body, letter.payload, letter.hyper)
            self._deliver(node, letter.returned())
            node.store.receive(None, None, None)
        self._leave_if_done(node)

    def _close(self, node: MortalNode, is_lost: Callable[[Letter], bool]) -> list[Letter]:
        """Take letters out of the outbox that shall never arrive."""
        lost = [letter for letter in node.outbox if is_lost(letter)]
        for letter in lost:
            letter.fate = CLOSED
            node.outbox.remove(letter)
        return lost

    def _return_at_once(self, letter: Letter) -> None:
        """A message to somebody who is not a member comes back."""
        self._return(letter.sender, self._close(letter.sender, lambda other: other is letter))

    def _mend(self, source: NodeId, target: NodeId) -> None:
        """That a channel broke is noticed: all that is under way on it is returned, and it works again."""
        self._broken.discard((source, target))
        node = self.nodes[source]
        self._return(node, self._close(node, lambda letter: letter.target == target and letter.view == node.view))

    def _heal(self, workers: Sequence[NodeId]) -> None:
        """The partition is over: what was held up goes on, in order."""
        self._cut.difference_update(workers)
        for node in self._incarnations:
            for letter in tuple(node.outbox):
                if letter.has_come:
                    self._arrive(letter)
        withheld, self._withheld = self._withheld, []
        for callback, args in withheld:
            callback(*args)

    def _is_out_of_reach(self, process: NodeId, callback: Callable[..., None], *args: Any) -> bool:
        """The store and a process cannot reach each other: what one wants of the other waits."""
        if process in self._cut:
            self._withheld.append((callback, args))
        return process in self._cut

    # Members: the engine's store notices, decides and tells.

    def _on_process(self, worker: NodeId) -> list[MortalNode]:
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

    def _end(self, nodes: Sequence[MortalNode]) -> None:
        for node in nodes:
            node.is_gone = True

    def _replace(self, lost: Sequence[MortalNode], how: str) -> None:
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

    def _move(self, id: NodeId, process: NodeId, view: View) -> None:
        world = replace(self.world, view=view.number)
        peer = self._strategy.peer(id, world, node_rng(self._seed + view.number, id))
        node = MortalNode(id, peer, self._new_store(id), None, process, view.number)
        node.is_paused = any(other.is_paused for other in self.nodes if other.process == process)
        self.nodes[id] = node
        self._incarnations.append(node)
        self.kernel.at(self.kernel.now_ns, self._start_anew, (node, view))

    def _start_anew(self, node: MortalNode, view: View) -> None:
        if self._is_able(node, self._start_anew, node, view):
            self._deliver(node, Started(view.number))
            self._deliver(node, MembersChanged(view.number, view.members, view.reason))

    def _decide(self, leaving: Sequence[NodeId], reason: str) -> View:
        view = self.arbiter.decide(self.kernel.now_ns, leaving, reason)
        self._native.cancel()
        for id in view.members:
            node = self.nodes[id]
            delay_ns = round(self._rng.random() * to_ns(self.faults.news_s))
            heard_ns = max(self.kernel.now_ns + delay_ns, self._last_arrival_ns.get((-1, id), 0))
            self._last_arrival_ns[-1, id] = heard_ns
            self.kernel.at(heard_ns, self._tell, (node, view))
        return view

    def _tell(self, node: MortalNode, view: View) -> None:
        """A member hears of a view; what it sent before and nobody has received is returned."""
        if self._is_out_of_reach(node.process, self._tell, node, view):
            return
        if node.view >= view.number or not self._is_able(node, self._tell, node, view):
            return
        lost = self._close(node, lambda letter: True)
        node.view = view.number
        node.taken.clear()
        self._deliver(node, MembersChanged(view.number, view.members, view.reason))
        self._return(node, lost)
        early, node.early = node.early, []
        for letter in early:
            self._arrive(letter)

    def _end_script(self, node: Node) -> None:
        super()._end_script(node)
        assert isinstance(node, MortalNode)
        self.kernel.at(self.kernel.now_ns + to_ns(self.faults.linger_s), self._take_leave, (node,))

    def _take_leave(self, node: MortalNode) -> None:
        if any(other.user is not ENDED for other in self.nodes if other.program is not None and not other.is_gone):
            node.is_leaving = True
            self._leave_if_done(node)

    def _leave_if_done(self, node: MortalNode) -> None:
        """A worker that takes its leave goes when all that it sent has been received."""
        is_member = node.id in self.arbiter.view.members
        if not node.is_leaving or node.is_gone or node.outbox or not is_member:
            return
        if not self._is_out_of_reach(node.process, self._leave_if_done, node):
            node.is_gone = True
            self._decide([node.id], f"finished {self.world.name(node.id)}")

    def _join(self, node: Node, action: Reduce) -> None:
        """A reduction of an older view never happens; one across a partition waits."""
        assert isinstance(node, MortalNode)
        if node.view != self.arbiter.view.number:
            return
        cut = [id for id in action.group if self.nodes[id].process in self._cut]
        if 0 < len(cut) < len(action.group):
            self._withheld.append((self._join, (node, action)))
        else:
            super()._join(node, action)
