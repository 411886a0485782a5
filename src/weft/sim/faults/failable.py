"""Nodes that may stand still or be gone: what comes due for one that stands still waits until it wakes."""

from collections.abc import Callable
from typing import Any

from weft.core.events import Event, GradientReady
from weft.core.names import NodeId
from weft.core.peer import Peer
from weft.sim.faults.in_flight import FailableNode
from weft.sim.node import SimulatedNode
from weft.sim.program import PortionWanted, Program, StepDone
from weft.sim.simulation import Simulation
from weft.store.store import Store


class FailableSimulation(Simulation):
    """A simulation of nodes each of which does what it does only while it can, by its own clock."""

    nodes: list[FailableNode]  # type: ignore[assignment]

    def _new_node(self, id: NodeId, peer: Peer, store: Store, program: Program | None) -> FailableNode:
        process = id % self.world.num_workers
        return FailableNode(id, peer, store, program, process, self.world.view)

    def _is_able(self, node: SimulatedNode, callback: Callable[..., None], *args: Any) -> bool:
        assert isinstance(node, FailableNode)
        if node.is_paused and not node.is_gone:
            node.backlog.append((callback, args))
        return not (node.is_gone or node.is_paused)

    def _deliver_to(self, node: NodeId, event: Event) -> None:
        if self._is_able(self.nodes[node], self._deliver_to, node, event):
            self._deliver(self.nodes[node], event)

    def _fire(self, node: SimulatedNode, name: str, generation: int) -> None:
        if self._is_able(node, self._fire, node, name, generation):
            super()._fire(node, name, generation)

    def _fill(self, node: SimulatedNode, event: GradientReady, is_last: bool) -> None:
        if self._is_able(node, self._fill, node, event, is_last):
            super()._fill(node, event, is_last)

    def _finish_step(self, node: SimulatedNode, request: StepDone) -> None:
        if self._is_able(node, self._finish_step, node, request):
            super()._finish_step(node, request)

    def _ask_for_portion(self, node: SimulatedNode, request: PortionWanted) -> None:
        if self._is_able(node, self._ask_for_portion, node, request):
            super()._ask_for_portion(node, request)

    def _due_ns(self, node: SimulatedNode, at_s: float) -> int:
        assert isinstance(node, FailableNode)
        return node.due_ns(at_s)

    def _is_stuck(self, node: SimulatedNode) -> bool:
        assert isinstance(node, FailableNode)
        return not node.is_gone and super()._is_stuck(node)
