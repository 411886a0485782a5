"""Faults happen by schedule, and members change."""

from typing import Any

import pytest
from support.peers.puppets import Puppet
from support.simulated.faulty_worlds import LATENCY_S, LATER, LINGER_S, events, peer, quiet, reducing, run, say_step

from weft.core.actions import Compute, Send
from weft.core.events import Event, MembersChanged, Received, Reduced, Started, StepFinished
from weft.sim.faults.plan import Crash, Partition, Pause, Slow, Spike


def test_a_dead_worker_is_out_for_all_others_and_they_end() -> None:
    ran = run(quiet, Crash(1, 0.35))
    changes = events(ran, 0, MembersChanged)
    assert changes[0] == MembersChanged(1, (0, 2), "lost worker 1")
    assert ran.arbiter.views[1].since_ns == pytest.approx(0.4e9)
    assert [node.step for node in ran.nodes] == [10, 3, 10]
    assert events(ran, 1, MembersChanged) == []


def test_a_worker_that_has_ended_stays_for_a_while_and_leaves_unless_all_have_ended() -> None:
    ran = run(say_step(1), *LATER, num_workers=2)
    assert [view.reason for view in ran.arbiter.views[1:]] == ["finished worker 0"]
    assert ran.arbiter.views[1].since_ns == pytest.approx((1.0 + LINGER_S) * 1e9)
    assert [event.clock for event in events(ran, 1, Received)] == list(range(10))


def test_where_workers_keep_step_one_that_has_ended_stays_until_the_others_have_made_its_last_step() -> None:
    ran = run(say_step(1), *LATER, num_workers=2, num_steps=10, in_step=True)
    last_steps = [now for now, event in peer(ran, 1)._seen if event == StepFinished(9, 1.0, None)]
    assert last_steps[0] > 1.0 + LINGER_S + LATENCY_S
    assert all(view.since_ns >= round(last_steps[0] * 1e9) for view in ran.arbiter.views[1:])


def test_a_partition_holds_messages_and_news_up_until_it_heals() -> None:
    ran = run(say_step(1), *LATER, Partition((1,), 0.15, 0.3))
    clocks = [event.clock for event in events(ran, 1, Received)]
    times = peer(ran, 1).times(Received)
    assert clocks == list(range(10))
    assert times[1:4] == [pytest.approx(0.45)] * 3


def test_who_is_cut_off_for_too_long_is_out_and_its_messages_are_refused() -> None:
    def answer(peer: Puppet, event: Event) -> list[Any] | None:
        if isinstance(event, StepFinished) and peer.me == 1:
            return [Send(0, "word", event.step, 0), Compute(event.step + 1)]
        return None

    ran = run(answer, Partition((1,), 0.15, 0.7), num_steps=12)
    assert ran.arbiter.views[1].reason == "fenced worker 1"
    assert ran.arbiter.views[1].since_ns == pytest.approx(0.65e9)
    assert [event.clock for event in events(ran, 0, Received)] == [0]
    assert ran.num_refused >= 7
    assert ran.nodes[1].is_gone


def test_who_stands_still_for_too_long_is_out_and_a_zombie_cannot_write() -> None:
    def answer(peer: Puppet, event: Event) -> list[Any] | None:
        if isinstance(event, StepFinished) and peer.me == 1:
            return [Send(0, "word", event.step, 0), Compute(event.step + 1)]
        return None

    ran = run(answer, Pause(1, 0.15, 0.6), num_steps=12)
    assert ran.arbiter.views[1].reason == "fenced worker 1"
    assert [event.clock for event in events(ran, 0, Received)] == [0]
    assert ran.nodes[1].step > 1, "it ran on for a while"
    assert ran.num_refused >= 1


def test_a_server_that_died_is_started_anew_elsewhere_with_a_fresh_peer() -> None:
    ran = run(quiet, Crash(0, 0.35), num_servers=1)
    assert ran.arbiter.views[1].reason == "lost worker 0, server 0; moved server 0 to the process of worker 1"
    assert ran.arbiter.views[1].members == (1, 2, 3)
    seen = [event for _, event in peer(ran, 3)._seen]
    assert seen[:2] == [Started(1), MembersChanged(1, (1, 2, 3), ran.arbiter.views[1].reason)]
    assert ran.nodes[3].process == 1


def test_a_server_that_was_cut_off_never_hears_of_the_view_in_which_it_is_another() -> None:
    heard: list[tuple[int, int]] = []

    def answer(peer: Puppet, event: Event) -> None:
        if isinstance(event, MembersChanged) and peer.me == 3:
            heard.append((peer.world.view, event.view))

    ran = run(answer, Partition((0,), 0.15, 0.7), num_servers=1, num_steps=12)
    assert [view.reason for view in ran.arbiter.views[1:2]] == [
        "fenced worker 0, server 0; moved server 0 to the process of worker 1"
    ]
    assert {incarnation for incarnation, _ in heard} == {1}


def test_a_reduction_across_a_partition_waits_for_its_end() -> None:
    ran = run(reducing, Partition((1,), 0.15, 0.3))
    times = peer(ran, 0).times(Reduced)
    assert times[0] < 0.15
    assert times[1] >= 0.45
    assert len(times) == 10


def test_slow_steps_take_longer_and_spikes_delay_messages() -> None:
    ran = run(say_step(1), *LATER, Slow(0, 0.15, 0.1, 4.0), Spike(0.55, 0.1, 0.2))
    steps = peer(ran, 0).times(StepFinished)
    assert steps[:4] == pytest.approx([0.1, 0.2, 0.6, 0.7])
    assert peer(ran, 1).times(Received)[2] == pytest.approx(0.6 + 0.2 + LATENCY_S)
