"""A simulation that keeps what its workers do and send, in virtual time, and is otherwise the same."""

from typing import Any

from weft.core.actions import Reduce, Send
from weft.core.activity import COMPUTES, WAITS
from weft.core.events import Event, GradientReady, Received, Reduced
from weft.core.names import Buffer, NodeId
from weft.observe.records.tracks import Numbering, Passage, Reduction, Span, Tracks
from weft.sim.delivery import Delivery
from weft.sim.facts import Facts
from weft.sim.kernel import NS_PER_S
from weft.sim.node import SimulatedNode
from weft.sim.program import StepDone
from weft.sim.simulation import Simulation


class TracedSimulation(Simulation):
    """Looks on where facts are told and actions performed, and changes neither: the trace hash stays as it is."""

    def __init__(self, *parts: Any, **options: Any) -> None:
        super().__init__(*parts, **options)
        self._tracks = self.facts.tracks = Tracks(self.world.num_workers)
        self._numbering = Numbering()
        self._sizes: dict[tuple[NodeId, NodeId, int], int] = {}
        """Of messages under way."""
        self._given: dict[tuple[NodeId, int, Buffer], tuple[str, float]] = {}
        """Reductions under way: their kind, and since when."""
        self._computing_since_s = [0.0] * self.world.num_workers
        self.delivery = SeenDelivery(self.delivery, self)

    def run(self) -> Facts:
        facts = super().run()
        is_whole = self._tracks.num_dropped == 0
        for worker, spans in enumerate(self._tracks.spans):
            self._tracks.spans[worker] = _with_waits(spans, facts.finished_s[worker] if is_whole else None)
        return facts

    def see_post(self, node: SimulatedNode, to: NodeId, event: Received, size: int) -> None:
        number = self._numbering.next(True, node.id, to)
        self._sizes[node.id, to, number] = size
        leaves_s = max(self.kernel.now_ns, node.busy_ns) / NS_PER_S
        self._pass(True, event, to, number, size, leaves_s)

    def see_reduce(self, node: SimulatedNode, action: Reduce) -> None:
        self._given[node.id, action.clock, action.buffer] = action.kind, self.kernel.now_s

    def deliver(self, node: SimulatedNode, event: Event) -> None:
        if isinstance(event, Received):
            number = self._numbering.next(False, event.source, node.id)
            size = self._sizes.pop((event.source, node.id, number))
            self._pass(False, event, node.id, number, size, self.kernel.now_s)
        elif isinstance(event, Reduced):
            kind, since_s = self._given.pop((node.id, event.clock, event.buffer))
            ended = Reduction(
                node=node.id,
                kind=kind,
                clock=event.clock,
                bucket=event.buffer.bucket,
                num_bytes=node.store.num_bytes(event.buffer),
                start_s=since_s,
                stop_s=self.kernel.now_s,
            )
            self._tracks.keep(self._tracks.reductions, ended)
        super().deliver(node, event)

    def _pass(self, is_sent: bool, event: Received, target: NodeId, number: int, size: int, at_s: float) -> None:
        passage = Passage(is_sent, event.source, target, number, event.kind, event.clock, size, at_s, at_s)
        self._tracks.keep(self._tracks.passages, passage)

    def _schedule_gradients(self, node: SimulatedNode, samples: float) -> None:
        self._computing_since_s[node.id] = max(self.kernel.now_ns, node.busy_ns) / NS_PER_S
        super()._schedule_gradients(node, samples)

    def _fill(self, node: SimulatedNode, event: GradientReady, is_last: bool) -> None:
        if is_last:
            span = COMPUTES, self._computing_since_s[node.id], self.kernel.now_s
            self._tracks.keep(self._tracks.spans[node.id], span)
        super()._fill(node, event, is_last)

    def _finish_step(self, node: SimulatedNode, request: StepDone) -> None:
        self._tracks.keep(self._tracks.steps[node.id], (node.step + 1, self.kernel.now_s))
        super()._finish_step(node, request)


class SeenDelivery:
    """A delivery of which a traced simulation sees what it is given."""

    def __init__(self, delivery: Delivery[Any], simulation: TracedSimulation) -> None:
        self._delivery = delivery
        self._simulation = simulation

    def post(self, node: SimulatedNode, action: Send, event: Received, size: int, payload: Any, hyper: Any) -> None:
        self._delivery.post(node, action, event, size, payload, hyper)
        self._simulation.see_post(node, action.to, event, size)

    def reduce(self, node: SimulatedNode, action: Reduce) -> None:
        self._simulation.see_reduce(node, action)
        self._delivery.reduce(node, action)

    def missing(self) -> list[str]:
        return self._delivery.missing()


def _with_waits(computing: list[Span], finished_s: float | None) -> list[Span]:
    """All that a worker did until its script ended: it waited when it did not compute.

    None for the end: records are lacking, so nobody knows what it did after the last one that was kept.
    """
    spans: list[Span] = []
    until_s = 0.0
    for what, start_s, stop_s in computing:
        if start_s > until_s:
            spans.append((WAITS, until_s, start_s))
        spans.append((what, start_s, stop_s))
        until_s = stop_s
    if finished_s is not None and finished_s > until_s:
        spans.append((WAITS, until_s, finished_s))
    return spans
