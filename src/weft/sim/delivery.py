"""The delivery of messages and reductions in virtual time: how they travel, and when they are told to a node."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from weft.core.actions import Reduce, Send
from weft.core.errors import IllegalAction
from weft.core.events import Event, Received
from weft.core.names import NodeId
from weft.sim.facts import Facts
from weft.sim.kernel import Kernel
from weft.sim.native import NativeReduce
from weft.sim.network import Network
from weft.sim.node import SimulatedNode

N_contra = TypeVar("N_contra", bound=SimulatedNode, contravariant=True)


class Delivery(Protocol[N_contra]):
    """Carries what nodes send and reduce."""

    def post(self, node: N_contra, action: Send, event: Received, size: int, payload: Any, hyper: Any) -> None:
        """Let an event of `size` bytes, with the captured body, reach its target."""
        ...

    def reduce(self, node: N_contra, action: Reduce) -> None:
        """Let a node contribute to a reduction."""
        ...

    def missing(self) -> list[str]:
        """For a deadlock: which reductions are incomplete, and who is missing."""
        ...


class Destination(Protocol):
    """A simulation, as far as a delivery knows it: its `nodes` by id, each the present incarnation."""

    kernel: Kernel
    facts: Facts
    network: Network
    nodes: list[SimulatedNode]

    def deliver(self, node: SimulatedNode, event: Event) -> None: ...

    def receive(self, node: SimulatedNode, event: Received, payload: Any, hyper: Any) -> None: ...


class DirectDelivery:
    """Every message arrives when the network says so, and every node is a member for ever."""

    def __init__(self, simulation: Destination) -> None:
        self._kernel = simulation.kernel
        self._facts = simulation.facts
        self._network = simulation.network
        self._nodes = simulation.nodes
        self._deliver: Callable[[SimulatedNode, Event], None] = simulation.deliver
        self._receive: Callable[[SimulatedNode, Received, Any, Any], None] = simulation.receive
        self._native = NativeReduce(self._kernel, self._network, self._nodes.__getitem__, self._deliver_to)

    def post(self, node: SimulatedNode, action: Send, event: Received, size: int, payload: Any, hyper: Any) -> None:
        """Let an event reach its target when the network delivers it."""
        to, kernel = action.to, self._kernel
        if not 0 <= to < len(self._nodes):
            raise IllegalAction(f"{action} goes to a node that is not of the world (0 to {len(self._nodes) - 1}).")
        self._facts.sent(node.id, size)
        if node.busy_ns and node.busy_ns >= kernel.now_ns:  # at that very time others may still be waiting to leave
            kernel.at(node.busy_ns, self._dispatch, (to, event, size, payload, hyper))
        else:
            self._dispatch(to, event, size, payload, hyper)

    def _dispatch(self, to: NodeId, event: Received, size: int, payload: Any, hyper: Any) -> None:
        kernel = self._kernel
        time_ns, has_arrived = self._network.send(event.source, to, size, kernel.now_ns)
        if not has_arrived:
            kernel.at(time_ns, self._come_in, (self._nodes[to], event, size, payload, hyper))
        elif payload is None:
            kernel.at(time_ns, self._deliver, (self._nodes[to], event))
        else:
            kernel.at(time_ns, self._receive, (self._nodes[to], event, payload, hyper))

    def _come_in(self, node: SimulatedNode, event: Received, size: int, payload: Any, hyper: Any) -> None:
        """A message that had to queue at its sender arrives now, unless it must queue at its target, too."""
        kernel = self._kernel
        arrival_ns = self._network.come_in(event.source, node.id, size, kernel.now_ns)
        if arrival_ns > kernel.now_ns:
            kernel.at(arrival_ns, self._receive, (node, event, payload, hyper))
        else:
            self._receive(node, event, payload, hyper)

    def reduce(self, node: SimulatedNode, action: Reduce) -> None:
        self._facts.sent_together(action.group, self._native.join(node, action))

    def _deliver_to(self, node: NodeId, event: Event) -> None:
        self._deliver(self._nodes[node], event)

    def missing(self) -> list[str]:
        return self._native.missing()
