"""A witness of a run: records all events and actions, and values at the moments that matter to an auditor."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weft.core.actions import Action, Compute
from weft.core.errors import Deadlock
from weft.core.events import Event
from weft.core.names import PARAMS, NodeId
from weft.core.recorder import Recording
from weft.core.script_state import ENDED
from weft.fuzz.ledger import Array, LedgerProgram
from weft.sim.node import SimulatedNode
from weft.sim.simulation import Simulation
from weft.store.numpy import NumpyStore

EVENTS_MAX = 300_000


class BoundedRecording(Recording):
    """A recording of a run that must end."""

    def record(self, now_ns: int, node: NodeId, event: Event, actions: Sequence[Action]) -> None:
        super().record(now_ns, node, event, actions)
        if len(self.entries) > EVENTS_MAX:
            raise Deadlock(f"the run went on and on: more than {EVENTS_MAX} events by {now_ns / 1e9:.3f} s.")


@dataclass(frozen=True)
class Sighting:
    """What a worker's replica held when an iteration began."""

    at_ns: int
    worker: NodeId
    life: int
    step: int
    params: tuple[Array, ...]


@dataclass(frozen=True)
class Version:
    """What a server held of a bucket from some moment on; `incarnation` is the view in which it was started."""

    at_ns: int
    server: NodeId
    incarnation: int
    bucket: int
    params: Array


def life_of(node: SimulatedNode) -> int:
    """Which of its worker's lives a node is."""
    assert isinstance(node.program, LedgerProgram)
    return node.program.life


def first_step_of(node: SimulatedNode) -> int:
    """With which step its script began."""
    assert isinstance(node.program, LedgerProgram)
    return node.program.first_step


class WitnessedSimulation(Simulation):
    """A simulation that is looked at, and not touched."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.sightings: list[Sighting] = []
        self.versions: list[Version] = []
        self.lives: list[int] = []
        """Of each entry of the recording: whose life it is of; a server's is its id."""
        self.began: list[SimulatedNode] = []
        """The nodes of all workers and newcomers whose scripts began."""
        self._held: dict[tuple[NodeId, int], bytes] = {}

    def params(self, node: SimulatedNode) -> tuple[Array, ...]:
        """A copy of what a node holds now."""
        assert isinstance(node.store, NumpyStore)
        replica = node.store.replica
        return tuple(replica.array(PARAMS, bucket).copy() for bucket in range(len(replica.buckets)))

    def begin(self, node: SimulatedNode, action: Compute) -> None:
        seen = Sighting(self.kernel.now_ns, node.id, life_of(node), action.step, self.params(node))
        super().begin(node, action)
        if node not in self.began:
            self.began.append(node)
        if node.script.at is not ENDED:  # a script that has ended begins nothing
            self.sightings.append(seen)

    def deliver(self, node: SimulatedNode, event: Event) -> None:
        self.lives.append(node.id if node.program is None else life_of(node))
        super().deliver(node, event)
        if node.id >= self.world.num_workers:
            self._note_versions(node)

    def _note_versions(self, node: SimulatedNode) -> None:
        assert isinstance(node.store, NumpyStore)
        for bucket in self.world.buckets_of(node.id):
            array = node.store.replica.array(PARAMS, bucket)
            value = array.tobytes()
            key = (id(node), bucket)
            if self._held.get(key) != value:
                self._held[key] = value
                incarnation = node.peer.world.view
                self.versions.append(Version(self.kernel.now_ns, node.id, incarnation, bucket, array.copy()))
