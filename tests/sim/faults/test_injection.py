"""Faults happen by schedule."""

from typing import Any

import pytest
from support.peers.puppets import Puppet
from support.simulated.faulty_worlds import LATENCY_S, LATER, run, say_step

from weft.core.actions import Compute, Send
from weft.core.events import Event, Received, StepFinished
from weft.sim.faults.plan import Crash, Partition, Pause, Rejoin, Slow, Spike


def test_who_is_cut_off_for_too_long_is_out_and_its_messages_are_refused() -> None:
    def answer(peer: Puppet, event: Event) -> list[Any] | None:
        if isinstance(event, StepFinished) and peer.me == 1:
            return [Send(0, "word", event.step, 0), Compute(event.step + 1)]
        return None

    ran = run(answer, Partition((1,), 0.15, 0.7), num_steps=12)
    assert ran.views[1].reason == "fenced worker 1"
    assert ran.views[1].since_ns == pytest.approx(0.65e9)
    assert [event.clock for event in ran.events(0, Received)] == [0]
    assert ran.injection.delivery.num_refused >= 7
    assert ran.node(1).is_gone


def test_who_stands_still_for_too_long_is_out_and_a_zombie_cannot_write() -> None:
    def answer(peer: Puppet, event: Event) -> list[Any] | None:
        if isinstance(event, StepFinished) and peer.me == 1:
            return [Send(0, "word", event.step, 0), Compute(event.step + 1)]
        return None

    ran = run(answer, Pause(1, 0.15, 0.6), num_steps=12)
    assert ran.views[1].reason == "fenced worker 1"
    assert [event.clock for event in ran.events(0, Received)] == [0]
    assert ran.node(1).step > 1, "it ran on for a while"
    assert ran.injection.delivery.num_refused >= 1


def test_slow_steps_take_longer_and_spikes_delay_messages() -> None:
    ran = run(say_step(1), *LATER, Slow(0, 0.15, 0.1, 4.0), Spike(0.55, 0.1, 0.2))
    steps = ran.peer(0).times(StepFinished)
    assert steps[:4] == pytest.approx([0.1, 0.2, 0.6, 0.7])
    assert ran.peer(1).times(Received)[2] == pytest.approx(0.6 + 0.2 + LATENCY_S)


def test_a_new_process_runs_its_scripts_beginning_before_it_comes_in() -> None:
    schedule = Crash(1, 0.15), Rejoin(1, 0.25)
    usual, longer = (run(say_step(0), *schedule, start_s=start_s) for start_s in (0.0, 0.3))
    joined = [next(view.since_ns for view in ran.views if view.reason == "joined worker 1") for ran in (usual, longer)]
    assert (joined[1] - joined[0]) / 1e9 == pytest.approx(0.3, abs=0.01)
