"""Nodes do what they do only while they can, by their own clocks."""

from typing import Any

import numpy as np
import pytest
from support.peers.puppets import Puppet
from support.simulated.faulty_worlds import LATER, events, peer, quiet, run, say_step

from weft.core.actions import Compute, Note, SetTimer
from weft.core.events import Event, PortionAsked, Received, Started, StepFinished, TimerFired
from weft.core.recorder import Recording
from weft.sim.faults.plan import Pause, Skew
from weft.testing.worlds import taking


def test_a_paused_process_goes_on_where_it_stood_and_hears_what_it_missed() -> None:
    ran = run(say_step(1), *LATER, Pause(1, 0.15, 0.3))
    assert peer(ran, 1).times(Received)[1:4] == [pytest.approx(0.45)] * 3
    assert ran.nodes[1].step == 10


def test_a_gradient_that_is_not_finite_is_told_with_no_samples() -> None:
    def gradient(worker: int, step: int, w: Any) -> Any:
        return np.full_like(w, np.inf) if (worker, step) == (1, 2) else w

    ran = run(quiet, gradient=gradient)
    samples = [event.samples for event in events(ran, 1, StepFinished)]
    assert samples == [1.0, 1.0, 0.0, *[1.0] * 7]


def test_clocks_of_nodes_differ_and_timers_go_by_them() -> None:
    def answer(peer: Puppet, event: Event) -> list[Any] | None:
        if isinstance(event, Started):
            return [SetTimer("tea", peer.now + 0.25), Compute(0)]
        return [Note("tea", peer.now)] if isinstance(event, TimerFired) else None

    ran = run(answer, Skew(1, offset_s=5.0, rate=0.5))
    assert peer(ran, 0).times(TimerFired) == [pytest.approx(0.25)]
    assert peer(ran, 1).times(TimerFired) == [pytest.approx(5.25)]
    assert isinstance(ran.recorder, Recording)
    fired = {node: now_ns for now_ns, node, event, _ in ran.recorder.entries if isinstance(event, TimerFired)}
    assert fired[1] == pytest.approx(0.5e9)


def test_a_share_of_a_process_that_stands_still_asks_for_its_portion_when_it_wakes() -> None:
    def answer(peer: Puppet, event: Event) -> list[Any] | None:
        return [Compute(len(peer.seen(StepFinished)), None)] if isinstance(event, PortionAsked) else None

    script = taking(lambda portion, w: w, [1.0], num_epochs=1)
    ran = run(answer, Pause(1, 0.0, 0.3), script=script)
    assert peer(ran, 0).times(PortionAsked) == [0.0]
    assert peer(ran, 1).times(PortionAsked) == [pytest.approx(0.3)]
