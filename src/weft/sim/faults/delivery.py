"""Messages between nodes that may fail: each is received in the view of its sending, or returned (decision 0017)."""

from collections.abc import Callable, Sequence
from typing import Any

from weft.core.actions import Reduce, Send
from weft.core.events import MembersChanged, Received, Reduced
from weft.core.names import NodeId
from weft.sim.arbiter import Arbiter, View
from weft.sim.delivery import Destination
from weft.sim.faults.failable import FailableLiveness
from weft.sim.faults.in_flight import CLOSED, OPEN, RECEIVED, RETURNED, FailableNode, MessageInFlight
from weft.sim.faults.plan import Duplicates, Faults, Spike
from weft.sim.faults.reach import Reach
from weft.sim.kernel import to_ns
from weft.sim.native import NativeReduce


class ViewDelivery:
    """Delivers between the members of a view.

    It reads the views of the arbiter and decides none: a membership calls `enter_view` for each node that hears of
    a view, and is told by `on_settled` when messages of a node were received or returned.
    """

    def __init__(
        self, simulation: Destination, arbiter: Arbiter, liveness: FailableLiveness, reach: Reach, faults: Faults
    ) -> None:
        self._kernel = simulation.kernel
        self._facts = simulation.facts
        self._network = simulation.network
        self._deliver = simulation.deliver
        self._receive = simulation.receive
        self._arbiter = arbiter
        self._liveness = liveness
        self._reach = reach
        self._faults = faults
        self._native = NativeReduce(self._kernel, self._network, liveness.node, self._deliver_to)
        self._deliver_if_able = liveness.when_able(simulation.deliver)
        self._last_arrival_ns: dict[tuple[NodeId, NodeId], int] = {}
        self.on_settled: Callable[[FailableNode], None] = lambda node: None
        self.messages: list[MessageInFlight] = []
        """All messages, whatever became of them."""
        self.num_duplicates = 0
        """Second comings that were removed."""
        self.num_refused = 0
        """Messages that came in another view than that of their sending."""

    def post(self, node: FailableNode, action: Send, event: Received, size: int, payload: Any, hyper: Any) -> None:
        self._facts.sent(node.id, size)
        number = node.num_sent[action.to] = node.num_sent.get(action.to, 0) + 1
        message = MessageInFlight(node, action.to, event, payload, hyper, number)
        node.outbox.append(message)
        self.messages.append(message)
        if action.to not in self._arbiter.members_of(node.view):
            self._kernel.at(self._kernel.now_ns, self._return_at_once, (message,))
            return
        time_ns, has_arrived = self._network.send(node.id, action.to, size, max(self._kernel.now_ns, node.busy_ns))
        if has_arrived:
            self._carry(message, time_ns)
        else:
            self._kernel.at(time_ns, self._come_in, (message, size))

    def _come_in(self, message: MessageInFlight, size: int) -> None:
        """A message that left late is at its target's side of the network, where others may have come before it."""
        now_ns = self._kernel.now_ns
        self._carry(message, self._network.come_in(message.sender.id, message.target, size, now_ns))

    def _carry(self, message: MessageInFlight, time_ns: int) -> None:
        """Let a message arrive at this time or later, and not before those that were sent before it."""
        channel, now_s = (message.sender.id, message.target), self._kernel.now_s
        time_ns += sum(to_ns(spike.extra_s) for spike in self._faults.active(Spike, now_s))
        in_order_ns = self._last_arrival_ns[channel] = max(time_ns, self._last_arrival_ns.get(channel, 0))
        self._kernel.at(in_order_ns, self._arrive, (message,))
        for again in self._faults.active(Duplicates, now_s):
            self._kernel.at(time_ns + to_ns(again.later_s), self._arrive_again, (message,))

    def _arrive(self, message: MessageInFlight) -> None:
        """A message stands at the door of its target; it stays open if it cannot come in."""
        node = self._liveness.node(message.target)
        message.has_come = True
        if message.fate is not OPEN or node.is_gone or self._reach.is_cut_off(message.sender, node):
            return
        if not self._liveness.is_able(node, self._arrive, message):
            return
        if message.view > node.view:
            node.early.append(message)
        elif message.view < node.view:
            self.num_refused += 1
        else:
            message.fate = RECEIVED
            message.sender.outbox.remove(message)
            self._take(node, message)
            self.on_settled(message.sender)

    def _arrive_again(self, message: MessageInFlight) -> None:
        node = self._liveness.node(message.target)
        if message.fate is not RECEIVED or node.is_gone or node.is_paused or message.view != node.view:
            return
        self._take(node, message)

    def _take(self, node: FailableNode, message: MessageInFlight) -> None:
        if self._is_second_coming(node, message):
            self.num_duplicates += 1
            return
        node.taken[message.event.source] = message.number
        self._receive(node, message.event, message.payload, message.hyper)

    def _is_second_coming(self, node: FailableNode, message: MessageInFlight) -> bool:
        return message.number <= node.taken.get(message.event.source, 0)

    def knock_again(self) -> None:
        """Let in the messages that stood at their targets' doors, cut off, if they can come in now."""
        for node in self._liveness.incarnations:
            for message in tuple(node.outbox):
                if message.has_come:
                    self._arrive(message)

    def enter_view(self, node: FailableNode, view: View) -> None:
        """A member hears of a view; what it sent before and nobody has received is returned."""
        lost = self._close(node, lambda message: True)
        node.view = view.number
        node.taken.clear()
        self._deliver(node, MembersChanged(view.number, view.members, view.reason))
        self._return(node, lost)
        early, node.early = node.early, []
        for message in early:
            self._arrive(message)

    def give_back(self, node: FailableNode, target: NodeId) -> None:
        """Return all that is under way on one of a node's channels."""
        self._return(node, self._close(node, lambda message: message.target == target and message.view == node.view))

    def _return_at_once(self, message: MessageInFlight) -> None:
        """A message to somebody who is not a member comes back."""
        self._return(message.sender, self._close(message.sender, lambda other: other is message))

    def _close(self, node: FailableNode, is_lost: Callable[[MessageInFlight], bool]) -> list[MessageInFlight]:
        """Take messages out of the outbox that shall never arrive."""
        lost = [message for message in node.outbox if is_lost(message)]
        for message in lost:
            message.fate = CLOSED
            node.outbox.remove(message)
        return lost

    def _return(self, node: FailableNode, messages: Sequence[MessageInFlight]) -> None:
        """Tell a node that these will never arrive."""
        if not self._liveness.is_able(node, self._return, node, messages):
            return
        for message in messages:
            message.fate = RETURNED
            node.store.receive(message.event.body, message.payload, message.hyper)
            self._deliver(node, message.returned())
            node.store.receive(None, None, None)
        self.on_settled(node)

    def reduce(self, node: FailableNode, action: Reduce) -> None:
        """A reduction across a partition waits; one of an older view never happens."""
        if self._reach.is_split(map(self._liveness.node, action.group), self.reduce, node, action):
            return
        if node.view == self._arbiter.view.number:
            self._facts.sent_together(action.group, self._native.join(node, action))

    @property
    def is_idle(self) -> bool:
        """No reduction is under way."""
        return self._native.is_idle

    def cancel_reductions(self) -> None:
        """The members change: reductions under way never happened."""
        self._native.cancel()

    def _deliver_to(self, id: NodeId, event: Reduced) -> None:
        self._deliver_if_able(self._liveness.node(id), event)

    def missing(self) -> list[str]:
        return self._native.missing()
