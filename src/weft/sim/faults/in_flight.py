"""A message under way between nodes that may fail, and what a node that may fail keeps besides the ordinary."""

from collections.abc import Callable
from typing import Any

from weft.core.events import Event, Received, Returned
from weft.core.names import NodeId
from weft.core.peer import Peer
from weft.core.script_state import ENDED, IN_STEP, JOINED
from weft.sim.kernel import to_ns
from weft.sim.node import SimulatedNode
from weft.sim.program import Program
from weft.store.store import Payload, Store

OPEN = "is under way"
RECEIVED = "was received"
CLOSED = "will never arrive"
RETURNED = "was returned"
FATES = (OPEN, RECEIVED, CLOSED, RETURNED)
"""What becomes of a message: it is received, or its end is decided and then told to its sender."""


class MessageInFlight:
    """A message with the view of its sending and its number on its channel."""

    __slots__ = ("event", "fate", "has_come", "hyper", "number", "payload", "sender", "target", "view")

    def __init__(
        self, sender: "FailableNode", target: NodeId, event: Received, payload: Payload, hyper: Any, number: int
    ) -> None:
        self.sender = sender
        self.target = target
        self.event = event
        self.payload = payload
        self.hyper = hyper
        self.number = number
        self.view = sender.view
        self.fate = OPEN
        self.has_come = False
        """It stands at its target's door, cut off."""

    def returned(self) -> Returned:
        """What its sender is told when it will never arrive."""
        event = self.event
        return Returned(
            self.target, event.kind, event.clock, event.bucket, event.body, event.weight, event.data, self.view
        )


class FailableNode(SimulatedNode):
    """A node that may stand still, be fenced or die; its clock may be wrong."""

    __slots__ = (
        "backlog",
        "early",
        "is_gone",
        "is_leaving",
        "is_paused",
        "num_sent",
        "offset_s",
        "outbox",
        "process",
        "rate",
        "taken",
        "view",
    )

    def __init__(
        self, id: NodeId, peer: Peer, store: Store, program: Program | None, process: NodeId, view: int
    ) -> None:
        super().__init__(id, peer, store, program)
        self.process = process
        self.view = view
        self.is_paused = False
        self.is_leaving = False
        """Its script ended some time ago; it goes when all that it sent has been received."""
        self.is_gone = False
        """Dead, or left: it does nothing any more."""
        self.backlog: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        """What came due while it stood still."""
        self.early: list[MessageInFlight] = []
        """Messages of views that it has not heard of."""
        self.outbox: list[MessageInFlight] = []
        """What it sent and nobody has received."""
        self.num_sent: dict[NodeId, int] = {}
        self.taken: dict[NodeId, int] = {}
        """The number of the last message received from each node in this view."""
        self.offset_s, self.rate = 0.0, 1.0
        self.handle = self._handle_by_own_clock  # type: ignore[assignment]

    def _handle_by_own_clock(self, event: Event, now_s: float) -> Any:
        return self.peer.handle(event, self.offset_s + self.rate * now_s)

    def has_begun(self, step: int) -> bool:
        """The peer has let the script begin this step, or the script has ended."""
        return self.script.at is ENDED or self.step + (self.script.at not in (JOINED, IN_STEP)) > step

    def due_ns(self, at_s: float) -> int:
        """A time of its own clock in that of the simulator."""
        return to_ns((at_s - self.offset_s) / self.rate)
