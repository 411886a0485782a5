"""Messages between nodes that may fail: each is received in the view of its sending, or returned (decision 0017)."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from weft.core.actions import Reduce, Send
from weft.core.events import MembersChanged, Received
from weft.core.names import NodeId
from weft.core.recorder import TraceHash
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.sim.arbiter import Arbiter, View
from weft.sim.compute import ComputeTime
from weft.sim.faults.failable import FailableSimulation
from weft.sim.faults.in_flight import CLOSED, OPEN, RECEIVED, RETURNED, FailableNode, MessageInFlight
from weft.sim.kernel import to_ns
from weft.sim.network import Network
from weft.sim.node import SimulatedNode
from weft.sim.program import Program
from weft.sim.reports import Reports
from weft.store.store import Payload, Store

STORE = -1
"""The engine's store, as the sender of news."""


class DeliverySimulation(FailableSimulation):
    """A simulation in which members change, and hear of it one after another within `news_s`."""

    def __init__(
        self,
        strategy: Strategy,
        world: World,
        stores: Sequence[Store],
        programs: Sequence[Program],
        network: Network,
        compute: ComputeTime,
        reports: Reports,
        news_s: float,
        seed: int = 0,
        recorder: TraceHash | None = None,
    ) -> None:
        super().__init__(strategy, world, stores, programs, network, compute, reports, seed, recorder)
        self.arbiter = Arbiter(range(world.num_nodes), world.view)
        self.num_duplicates = 0
        """Second comings that were removed."""
        self.num_refused = 0
        """Messages that came in another view than that of their sending."""
        self._news_ns = to_ns(news_s)
        self._rng = Random(f"news/{seed}")
        self._last_arrival_ns: dict[tuple[NodeId, NodeId], int] = {}

    def _post(
        self, node: SimulatedNode, action: Send, event: Received, size: int, payload: Payload, hyper: Any
    ) -> None:
        assert isinstance(node, FailableNode)
        self.facts.sent(node.id, size)
        message = self._put_in_flight(node, action.to, event, payload, hyper)
        if action.to not in self.arbiter.members_of(node.view):
            self.kernel.at(self.kernel.now_ns, self._return_at_once, (message,))
            return
        time_ns, _ = self._network.send(node.id, action.to, size, max(self.kernel.now_ns, node.busy_ns))
        self._carry(message, time_ns)

    def _put_in_flight(
        self, node: FailableNode, to: NodeId, event: Received, payload: Payload, hyper: Any
    ) -> MessageInFlight:
        number = node.num_sent[to] = node.num_sent.get(to, 0) + 1
        message = MessageInFlight(node, to, event, payload, hyper, number)
        node.outbox.append(message)
        return message

    def _carry(self, message: MessageInFlight, time_ns: int) -> None:
        """Let a message arrive at this time, and not before those that were sent before it."""
        channel = message.sender.id, message.target
        time_ns = self._last_arrival_ns[channel] = max(time_ns, self._last_arrival_ns.get(channel, 0))
        self.kernel.at(time_ns, self._arrive, (message,))

    def _is_cut_off(self, message: MessageInFlight) -> bool:
        """A message cannot come in now, though its target lives."""
        return False

    def _is_out_of_reach(self, process: NodeId, callback: Callable[..., None], *args: Any) -> bool:
        """The store and a process cannot reach each other: what one wants of the other waits."""
        return False

    def _arrive(self, message: MessageInFlight) -> None:
        """A message stands at the door of its target; it stays open if it cannot come in."""
        node = self.nodes[message.target]
        message.has_come = True
        if message.fate is not OPEN or node.is_gone or self._is_cut_off(message):
            return
        if not self._is_able(node, self._arrive, message):
            return
        if message.view > node.view:
            node.early.append(message)
        elif message.view < node.view:
            self.num_refused += 1
        else:
            message.fate = RECEIVED
            message.sender.outbox.remove(message)
            self._take(node, message)
            self._leave_if_done(message.sender)

    def _take(self, node: FailableNode, message: MessageInFlight) -> None:
        if self._is_second_coming(node, message):
            self.num_duplicates += 1
            return
        node.taken[message.event.source] = message.number
        self._receive(node, message.event, message.payload, message.hyper)

    def _is_second_coming(self, node: FailableNode, message: MessageInFlight) -> bool:
        return message.number <= node.taken.get(message.event.source, 0)

    def _return(self, node: FailableNode, messages: Sequence[MessageInFlight]) -> None:
        """Tell a node that these will never arrive."""
        if not self._is_able(node, self._return, node, messages):
            return
        for message in messages:
            message.fate = RETURNED
            node.store.receive(message.event.body, message.payload, message.hyper)
            self._deliver(node, message.returned())
            node.store.receive(None, None, None)
        self._leave_if_done(node)

    def _close(self, node: FailableNode, is_lost: Callable[[MessageInFlight], bool]) -> list[MessageInFlight]:
        """Take messages out of the outbox that shall never arrive."""
        lost = [message for message in node.outbox if is_lost(message)]
        for message in lost:
            message.fate = CLOSED
            node.outbox.remove(message)
        return lost

    def _return_at_once(self, message: MessageInFlight) -> None:
        """A message to somebody who is not a member comes back."""
        self._return(message.sender, self._close(message.sender, lambda other: other is message))

    def _decide(self, leaving: Sequence[NodeId], reason: str) -> View:
        """Commit a view without these members; the others will hear of it."""
        view = self.arbiter.decide(self.kernel.now_ns, leaving, reason)
        self._native.cancel()
        for id in view.members:
            delay_ns = round(self._rng.random() * self._news_ns)
            heard_ns = max(self.kernel.now_ns + delay_ns, self._last_arrival_ns.get((STORE, id), 0))
            self._last_arrival_ns[STORE, id] = heard_ns
            self.kernel.at(heard_ns, self._tell, (self.nodes[id], view))
        return view

    def _tell(self, node: FailableNode, view: View) -> None:
        """A member hears of a view; what it sent before and nobody has received is returned.

        A server that was started anew is a member, what it was before is not.
        """
        if self.nodes[node.id] is not node:
            return
        if self._is_out_of_reach(node.process, self._tell, node, view):
            return
        if node.view >= view.number or not self._is_able(node, self._tell, node, view):
            return
        lost = self._close(node, lambda message: True)
        node.view = view.number
        node.taken.clear()
        self._deliver(node, MembersChanged(view.number, view.members, view.reason))
        self._return(node, lost)
        early, node.early = node.early, []
        for message in early:
            self._arrive(message)

    def _leave_if_done(self, node: FailableNode) -> None:
        """A worker that takes its leave goes when all that it sent has been received."""
        is_member = node.id in self.arbiter.view.members
        if not node.is_leaving or node.is_gone or node.outbox or not is_member:
            return
        if not self._is_out_of_reach(node.process, self._leave_if_done, node):
            node.is_gone = True
            self._decide([node.id], f"finished {self.world.name(node.id)}")

    def _join(self, node: SimulatedNode, action: Reduce) -> None:
        """A reduction of an older view never happens."""
        assert isinstance(node, FailableNode)
        if node.view == self.arbiter.view.number:
            super()._join(node, action)
