"""The liveness of nodes in virtual time: which can act now, by which clock and how fast; here all can, always."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from weft.core.names import NodeId
from weft.core.peer import Peer
from weft.sim.compute import ComputeTime
from weft.sim.kernel import to_ns
from weft.sim.node import SimulatedNode
from weft.sim.program import Program
from weft.store.store import Store

N = TypeVar("N", bound=SimulatedNode)
C = TypeVar("C", bound=Callable[..., None])


class Liveness(Protocol[N]):
    """Makes the nodes of a simulation, and decides when they act.

    `when_able` and `slowed` are asked once, when the simulation is built: a liveness that changes nothing gives back
    what it was given, and costs nothing while events are told.
    """

    def new_node(self, id: NodeId, peer: Peer, store: Store, program: Program | None) -> N:
        """A node, or a new incarnation of one, in the view of its peer's world."""
        ...

    def when_able(self, callback: C) -> C:
        """What calls callback(node, ...) at once, or when the node can act again, or never if it is gone."""
        ...

    def slowed(self, compute: ComputeTime) -> ComputeTime:
        """How long iterations take, given how long they would take if no worker was slowed down."""
        ...

    def due_ns(self, node: N, at_s: float) -> int:
        """When a timer of a node's own clock comes due."""
        ...

    def is_gone(self, node: N) -> bool:
        """The node is dead, or has left: nobody waits for its script."""
        ...


class AlwaysAble:
    """Nodes that neither fail nor stand still, whose clocks are right, in whatever simulation."""

    def __init__(self, simulation: object = None) -> None:
        pass

    def new_node(self, id: NodeId, peer: Peer, store: Store, program: Program | None) -> SimulatedNode:
        return SimulatedNode(id, peer, store, program)

    def when_able(self, callback: C) -> C:
        return callback

    def slowed(self, compute: ComputeTime) -> ComputeTime:
        return compute

    def due_ns(self, node: SimulatedNode, at_s: float) -> int:
        return to_ns(at_s)

    def is_gone(self, node: SimulatedNode) -> bool:
        return False
