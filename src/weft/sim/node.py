"""One node under the simulator: its peer, its tensors and, for a worker, where its script stands."""

from weft.core.events import GradientReady
from weft.core.names import NodeId
from weft.core.peer import Peer
from weft.core.script_state import ENDED, JOINED, NO_USER, ScriptState
from weft.sim.program import PortionWanted, Program, ReportDone
from weft.store.gate import Gate
from weft.store.store import Store


class SimulatedNode:
    """What the simulator keeps for a node."""

    __slots__ = (
        "busy_ns",
        "epoch",
        "gate",
        "handle",
        "held",
        "id",
        "peer",
        "program",
        "report",
        "samples",
        "script",
        "step",
        "store",
        "timers",
        "wanted",
    )

    def __init__(self, id: NodeId, peer: Peer, store: Store, program: Program | None) -> None:
        self.id = id
        self.peer = peer
        self.handle = peer.handle
        self.store = store
        self.program = program
        self.script = ScriptState(JOINED if program is not None else NO_USER)
        self.gate: Gate | None = None
        """Leaves out gradients that are not finite; none where there are no numbers."""
        self.held = False
        self.step = 0
        self.epoch = 0
        self.report: ReportDone | None = None
        self.wanted: PortionWanted | None = None
        """The portion that its share has asked for."""
        self.samples = 0.0
        """Samples of this step whose computation has been counted: backward may run several times."""
        self.timers: dict[str, int] = {}
        self.busy_ns = 0
        """Until when it encodes and decodes: what it sends leaves then, and its script goes on then."""

    def weighed(self, event: GradientReady) -> GradientReady:
        """With what a bucket's gradient weighs: nothing, if it is not finite and reduced for itself."""
        if self.gate is None:
            return event
        return GradientReady(event.step, event.bucket, self.gate.weigh(event.step, event.bucket, event.samples))

    def needs(self, name: str) -> str:
        """One line: what the node of this name needs to go on."""
        if self.script.at is ENDED:
            return f"{name} has ended after {self.step} steps"
        return f"{name} (step {self.step}, {self.script.at}) waits for {self.peer.waiting_for()}"
