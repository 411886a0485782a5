"""Encoding and decoding in virtual time: a node that does it is busy, and what it sends leaves later."""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from support.peers.puppets import Answer, Puppets

from weft.codecs import Codec, TopK
from weft.core.actions import Action, Compute, Encode, Send, SetTimer
from weft.core.events import Event, Received, Started, TimerFired
from weft.core.names import Bucket, Buffer, Part
from weft.core.world import World
from weft.cost.coding import CodingSpeed, Throughput
from weft.cost.links import Link
from weft.sim.compute import PerSample
from weft.sim.network import HostLinks
from weft.sim.program import GhostProgram
from weft.sim.reports import NoReports
from weft.sim.simulation import Simulation
from weft.store.ghost import GhostStore
from weft.testing.peers import G0, P0

BUCKETS = (Bucket(1000),)
MINE = Buffer("mine", 0)
ENCODE = Encode("push", 0, MINE, G0)
SLOW = CodingSpeed({"topk": Throughput(4000.0, 8000.0)})
"""A second to encode 1000 numbers, half a second to decode them."""


@dataclass(frozen=True)
class Coding(Puppets):
    """Puppets whose pushes are coded."""

    def codecs(self) -> Mapping[str, Codec]:
        return {"push": TopK()}


def arrivals(answer: Answer, speed: CodingSpeed | None = SLOW, *, latency_s: float = 0.0) -> list[tuple[float, str]]:
    """When worker 1 received what kinds; worker 0 answers as it is told."""
    strategy = Coding(answer, slot_names=("mine",))
    world = World(strategy.roles(2), BUCKETS)
    stores = [GhostStore(BUCKETS, ["mine"], strategy.codecs()) for _ in range(2)]
    network = HostLinks((0, 1), [Link(latency_s, float("inf"))] * 2, Link(0.0, float("inf")))
    programs = [GhostProgram([1], 1) for _ in range(2)]
    simulation = Simulation(
        strategy, world, stores, programs, network, PerSample([1e-3] * 2), NoReports(), 0, coding=speed
    )
    simulation.run()
    seen = simulation.nodes[1].peer._seen  # type: ignore[attr-defined]
    return [(now, event.kind) for now, event in seen if isinstance(event, Received)]


def first(*actions: Action) -> Answer:
    """Worker 0 does this first of all."""
    return lambda peer, event: [*actions, Compute(0)] if isinstance(event, Started) and peer.me == 0 else None


def test_what_is_sent_after_encoding_leaves_when_that_is_done_and_what_was_sent_before_does_not_wait() -> None:
    answer = first(Send(1, "word", 0, 0), ENCODE, Send(1, "push", 0, 0, MINE), Send(1, "value", 0, 0, P0))
    assert arrivals(answer) == [(0.0, "word"), (1.0, "push"), (1.0, "value")]


def test_tensors_are_encoded_one_after_another() -> None:
    half = Buffer("mine", 0, Part(0, 2))
    answer = first(ENCODE, Send(1, "push", 0, 0, MINE), Encode("push", 0, half, G0), Send(1, "push", 0, 0, half))
    assert arrivals(answer) == [(1.0, "push"), (1.5, "push")]


def test_if_nobody_has_measured_nothing_waits() -> None:
    answer = first(ENCODE, Send(1, "push", 0, 0, MINE))
    assert arrivals(answer, None) == arrivals(answer, CodingSpeed({})) == [(0.0, "push")]


def test_who_receives_what_is_coded_is_busy_decoding_it_and_what_is_not_coded_takes_no_time() -> None:
    def echo(peer: object, event: Event) -> list[Action] | None:
        if isinstance(event, Started) and peer.me == 1:  # type: ignore[attr-defined]
            return [ENCODE, Send(0, "push", 0, 0, MINE), Send(0, "word", 0, 0), Compute(0)]
        return [Send(1, event.kind, 0, 0)] if isinstance(event, Received) and event.source == 1 else None

    assert arrivals(echo) == [(1.5, "push"), (1.5, "word")]


def test_a_script_goes_on_when_its_node_has_encoded() -> None:
    def answer(peer: object, event: Event) -> list[Action] | None:
        if isinstance(event, Started) and peer.me == 0:  # type: ignore[attr-defined]
            return [ENCODE, Compute(0)]
        done = type(event).__name__ == "StepFinished" and peer.me == 0  # type: ignore[attr-defined]
        return [Send(1, "word", 0, 0), Compute(1)] if done else None

    assert arrivals(answer) == [(pytest.approx(1.001), "word")]


def test_what_is_sent_at_the_very_end_of_encoding_does_not_overtake() -> None:
    def answer(peer: object, event: Event) -> list[Action] | None:
        if isinstance(event, Started) and peer.me == 0:  # type: ignore[attr-defined]
            return [SetTimer("end", 1.0), ENCODE, Send(1, "push", 0, 0, MINE), Compute(0)]
        return [Send(1, "word", 0, 0)] if isinstance(event, TimerFired) else None

    assert arrivals(answer) == [(1.0, "push"), (1.0, "word")]
