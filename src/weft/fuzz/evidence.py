"""The evidence of a run: what was recorded, and what an auditor can work out from it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from traceback import format_exception
from typing import NamedTuple

from weft.core.actions import Apply
from weft.core.events import Started, StepFinished
from weft.core.names import WELCOME, Buffer, NodeId
from weft.core.script_state import ENDED
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.fuzz.coding import says_whole
from weft.fuzz.ledger import Array
from weft.fuzz.scenario import Scenario
from weft.fuzz.witness import BoundedRecording, Sighting, Version, WitnessedSimulation, first_step_of, life_of
from weft.sim.arbiter import View
from weft.sim.faults.in_flight import RECEIVED, MessageInFlight
from weft.sim.faults.plan import NonFiniteGradient
from weft.sim.node import SimulatedNode
from weft.store.numpy import NumpyStore


class Step(NamedTuple):
    """A step that a worker finished; its samples are 0 when its gradient was excluded."""

    worker: NodeId
    life: int
    step: int
    at_ns: int
    samples: float


@dataclass
class Evidence:
    """All that an auditor is given; it is written apart from the strategies and knows none of their peers."""

    scenario: Scenario
    recipe: Strategy
    world: World
    recording: BoundedRecording
    simulation: WitnessedSimulation
    views: list[View]
    """All that were decided; the last is in force."""
    messages: list[MessageInFlight]
    """All that were sent, whatever became of them."""
    error: Exception | None = None

    @property
    def name(self) -> str:
        """The registered name of the strategy."""
        return self.scenario.strategy.partition("(")[0]

    @property
    def is_exact(self) -> bool:
        """The ledger can be read: nothing is coded, or by a codec that says numbers as they are."""
        return self.scenario.compress is None or says_whole(self.scenario.compress)

    @property
    def trace(self) -> str:
        return self.recording.hexdigest()

    @property
    def sightings(self) -> list[Sighting]:
        """What workers began their iterations with."""
        return self.simulation.sightings

    def final(self, node: NodeId) -> tuple[Array, ...]:
        """What a node holds at the end, or held when it died."""
        return self.simulation.params(self.simulation.nodes[node])

    def slot(self, node: NodeId, buffer: Buffer) -> Array:
        """What a node holds of a slot at the end, or held when it died."""
        store = self.simulation.nodes[node].store
        assert isinstance(store, NumpyStore)
        return store.lend(buffer)

    @cached_property
    def steps(self) -> list[Step]:
        """All finished steps, in the order of time."""
        return [
            Step(node, life, event.step, now_ns, event.samples)
            for (now_ns, node, event, _), life in zip(self.recording.entries, self.simulation.lives)
            if isinstance(event, StepFinished)
        ]

    @cached_property
    def not_finite(self) -> set[tuple[NodeId, int]]:
        """The (worker, step) of gradients that are left out, bucket by bucket where a strategy reduces buckets."""
        schedule = self.scenario.faults.schedule
        return {(fault.worker, fault.step) for fault in schedule if isinstance(fault, NonFiniteGradient)}

    @cached_property
    def workers(self) -> dict[int, SimulatedNode]:
        """By life: the node of each worker and newcomer that has begun, as it is now or was when it died."""
        return {life_of(node): node for node in self.simulation.began}

    @cached_property
    def first_steps(self) -> dict[tuple[NodeId, int], int]:
        """With which step each newcomer began, by its worker and the view in which it came; some end there at once."""
        came = [node for node in self.workers.values() if node.peer.world.view > self.world.view]
        return {(node.id, node.peer.world.view): first_step_of(node) for node in came}

    def taken_over(self, slot: str, bucket: int) -> list[Array]:
        """What newcomers that began were given of a slot."""
        return [message.payload for message in self.welcomes(slot, bucket) if self.begun_by(message) is not None]

    def welcomes(self, slot: str, bucket: int) -> list[MessageInFlight]:
        """The messages that gave a newcomer something of a slot, whatever became of them and of it."""
        told = {"slot": slot}
        messages = (message for message in self.messages if message.event.kind == WELCOME)
        return [message for message in messages if message.event.bucket == bucket and message.event.data == told]

    @property
    def sponsors(self) -> Iterator[tuple[int, MessageInFlight]]:
        """Each life of a newcomer that began, with the message that told it where the run is."""
        for message in self.messages:
            if message.event.kind == WELCOME and message.event.body is None:
                life = self.begun_by(message)
                if life is not None:
                    yield life, message

    def begun_by(self, welcome: MessageInFlight) -> int | None:
        """The life that began with what a message gave it, if it was received and one did."""
        return self._newcomers.get((welcome.target, welcome.view)) if welcome.fate is RECEIVED else None

    @cached_property
    def _newcomers(self) -> dict[tuple[NodeId, int], int]:
        """By worker and the view in which it came: each life of a newcomer that began."""
        return {(node.id, node.peer.world.view): life for life, node in self.workers.items()}

    def is_lost(self, worker: NodeId) -> bool:
        """The last life of a worker did not end in order."""
        return life_of(self.simulation.nodes[worker]) in self.lost

    @cached_property
    def out_ns(self) -> dict[int, int]:
        """When each life whose worker is no longer a member was out, by whatever reason."""
        return {life: after.since_ns for life, after in self.ends}

    @property
    def ends(self) -> Iterator[tuple[int, View]]:
        """Each life that was a member, with the view in which it no longer was."""
        for life, node in self.workers.items():
            later = [view for view in self.views if view.number > node.peer.world.view]
            ended = next((view for view in later if node.id not in view.members), None)
            if ended is not None:
                yield life, ended

    @cached_property
    def lost(self) -> set[int]:
        """Lives that did not end in order: out for another reason than that they had finished, or dead unnoticed."""
        unended = {life for life, node in self.workers.items() if node.script.at is not ENDED}
        return unended | {life for life, view in self.ends if not view.reason.startswith("finished")}

    @cached_property
    def moved(self) -> set[NodeId]:
        """Servers that were started anew."""
        started = {node for _, node, event, _ in self.recording.entries if isinstance(event, Started) and event.view}
        return started.intersection(self.world.servers)

    def is_out(self, life: int, at_ns: int) -> bool:
        """A worker was no longer a member at some time."""
        return self.out_ns.get(life, at_ns) < at_ns

    def members_at(self, at_ns: int) -> tuple[NodeId, ...]:
        """The members by the last view that was decided before or at some time."""
        views = [view for view in self.views if view.since_ns <= at_ns]
        return views[-1].members

    def histories(self) -> Iterator[tuple[NodeId, int, list[Version]]]:
        """What each incarnation of each server held of a bucket, in the order of time; of one that was moved, from
        the parameters on to which it first applied something: those before are copies that it was sent."""
        found: dict[tuple[NodeId, int, int], list[Version]] = {}
        for version in self.simulation.versions:
            found.setdefault((version.server, version.incarnation, version.bucket), []).append(version)
        for (server, incarnation, bucket), versions in found.items():
            since_ns = self._first_applied_ns.get((server, incarnation), 0) if incarnation else 0
            before = [version for version in versions if version.at_ns < since_ns]
            yield server, bucket, [*before[-1:], *versions[len(before) :]]

    @cached_property
    def _first_applied_ns(self) -> dict[tuple[NodeId, int], int]:
        """When each incarnation of a node first applied something."""
        incarnations: dict[NodeId, int] = {}
        first: dict[tuple[NodeId, int], int] = {}
        for now_ns, node, event, actions in self.recording.entries:
            if isinstance(event, Started):
                incarnations[node] = event.view
            if any(isinstance(action, Apply) for action in actions):
                first.setdefault((node, incarnations[node]), now_ns)
        return first


AUDITOR = 0
"""No promise has this number: the auditor itself failed, which says nothing of the strategy."""


class Violation(NamedTuple):
    """An invariant that was broken, by its number in the list of promises, and how."""

    invariant: int
    what: str

    @classmethod
    def of_auditor(cls, error: Exception) -> "Violation":
        """An exception while a seed was drawn, run or audited; the traceback follows the first line."""
        frames = "".join(format_exception(error)).rstrip()
        return cls(AUDITOR, f"the auditor itself failed: {type(error).__name__}: {error}\n{frames}")


TOLERANCE = 1e-9
