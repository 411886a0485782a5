"""When things go wrong, the driver keeps the promises of decision 0017."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from puppets import Answer, Puppet, Puppets
from worlds import ArrayProgram, training

import weft
from weft.adapters.arrays import ArrayReplica
from weft.core.actions import MEAN, Compute, Note, Reduce, Send, SetTimer
from weft.core.events import Event, MembersChanged, Received, Reduced, Returned, Started, StepFinished, TimerFired
from weft.core.names import Role
from weft.core.recorder import Recording
from weft.core.world import World
from weft.cost.links import Link
from weft.sim.compute import PerSample
from weft.sim.faults import (
    Crash,
    Duplicates,
    Fault,
    Faults,
    Loss,
    Partition,
    Pause,
    Skew,
    Slow,
    Spike,
)
from weft.sim.faulty import FaultySimulation
from weft.sim.network import HostLinks
from weft.sim.reports import NoReports
from weft.store.numpy import NumpyStore
from weft.store.store import Store

STEP_S = 0.1
LATENCY_S = 0.01
LINGER_S = 0.05
LATER = Slow(1, 0.75, 9.0, 3.0), Slow(2, 0.75, 9.0, 3.0)
"""Worker 0 is the first to end, so that nobody's end gets in the way of what it sends."""


def run(
    answer: Answer,
    *schedule: Fault,
    num_workers: int = 3,
    num_servers: int = 0,
    num_steps: int = 10,
    gradient: Callable[[int, int, Any], Any] | None = None,
    news_s: float = 0.001,
) -> FaultySimulation:
    """A run of puppets whose steps take 0.1 s and whose messages take 0.01 s."""
    strategy = Puppets(answer, num_servers)
    roles = strategy.roles(num_workers)
    hosts = tuple(range(sum(roles)))
    replicas = [ArrayReplica({"w": np.ones(1)}, weft.SGD(lr=0.1), None) for _ in hosts]
    world = World(roles, replicas[0].buckets, None, hosts)
    script = training(gradient or (lambda worker, step, w: w), num_steps)
    programs = [ArrayProgram(script(rank, replicas[rank])) for rank in range(num_workers)]

    def store(node: int) -> Store:
        return NumpyStore(replicas[node], [], {}, is_server=world.role(node) is Role.SERVER)

    simulation = FaultySimulation(
        strategy,
        world,
        [store(node) for node in hosts],
        programs,
        HostLinks(hosts, [Link(LATENCY_S, 1e12)] * len(hosts), Link(LATENCY_S, 1e12)),
        PerSample([STEP_S] * num_workers),
        NoReports(),
        Faults(tuple(schedule), notice_s=0.05, fence_s=0.5, linger_s=LINGER_S, news_s=news_s),
        store,
        recorder=Recording(),
    )
    simulation.run()
    return simulation


def peer(simulation: FaultySimulation, node: int) -> Puppet:
    found = simulation.nodes[node].peer
    assert isinstance(found, Puppet)
    return found


def events(simulation: FaultySimulation, node: int, *kinds: type) -> list[Event]:
    return [event for _, event in peer(simulation, node)._seen if isinstance(event, kinds)]


def say_step(to: int) -> Answer:
    """Worker 0 sends the number of each step to somebody."""

    def answer(peer: Puppet, event: Event) -> list[Any] | None:
        if isinstance(event, StepFinished) and peer.me == 0:
            return [Send(to, "word", event.step, 0), Compute(event.step + 1)]
        return None

    return answer


def quiet(peer: Puppet, event: Event) -> None:
    return None


def test_a_dead_worker_is_out_for_all_others_and_they_end() -> None:
    ran = run(quiet, Crash(1, 0.35))
    changes = events(ran, 0, MembersChanged)
    assert changes[0] == MembersChanged(1, (0, 2), "lost worker 1")
    assert ran.arbiter.views[1].since_ns == pytest.approx(0.4e9)
    assert [node.step for node in ran.nodes] == [10, 3, 10]
    assert events(ran, 1, MembersChanged) == []


def test_what_was_sent_to_the_dead_comes_back_after_the_change_with_its_view() -> None:
    ran = run(say_step(1), Crash(1, 0.35))
    told = events(ran, 0, MembersChanged, Returned)
    assert told[0] == MembersChanged(1, (0, 2), "lost worker 1")
    assert told[1] == Returned(1, "word", 3, 0, None, 1.0, None, view=0)
    assert told[2:4] == [Returned(1, "word", step, 0, None, 1.0, None, view=1) for step in (4, 5)]


def test_a_worker_that_has_ended_stays_for_a_while_and_leaves_unless_all_have_ended() -> None:
    ran = run(say_step(1), *LATER, num_workers=2)
    assert [view.reason for view in ran.arbiter.views[1:]] == ["finished worker 0"]
    assert ran.arbiter.views[1].since_ns == pytest.approx((1.0 + LINGER_S) * 1e9)
    assert [event.clock for event in events(ran, 1, Received)] == list(range(10))  # type: ignore[union-attr]


def test_a_broken_channel_returns_what_was_under_way_in_order_and_works_again() -> None:
    ran = run(say_step(1), *LATER, Loss(0, 1, 0.15, 0.3))
    assert [event.clock for event in events(ran, 0, Returned)] == [1, 2, 3]  # type: ignore[union-attr]
    assert [event.clock for event in events(ran, 1, Received)] == [0, 4, 5, 6, 7, 8, 9]  # type: ignore[union-attr]


def test_a_peer_that_sends_again_what_came_back_keeps_the_channel_in_order() -> None:
    def answer(peer: Puppet, event: Event) -> list[Any] | None:
        if isinstance(event, Returned) and event.target in peer.members:
            return [Send(event.target, event.kind, event.clock, event.bucket)]
        return say_step(1)(peer, event)

    ran = run(answer, *LATER, Loss(0, 1, 0.15, 0.3))
    assert [event.clock for event in events(ran, 1, Received)] == list(range(10))  # type: ignore[union-attr]


def test_second_comings_are_removed() -> None:
    ran = run(say_step(1), *LATER, Duplicates(0.0, 9.0, later_s=0.15))
    assert [event.clock for event in events(ran, 1, Received)] == list(range(10))  # type: ignore[union-attr]
    assert ran.num_duplicates > 5


def test_a_partition_holds_messages_and_news_up_until_it_heals() -> None:
    ran = run(say_step(1), *LATER, Partition((1,), 0.15, 0.3))
    clocks = [event.clock for event in events(ran, 1, Received)]  # type: ignore[union-attr]
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
    assert [event.clock for event in events(ran, 0, Received)] == [0]  # type: ignore[union-attr]
    assert ran.num_refused >= 7
    assert ran.nodes[1].is_gone


def test_a_paused_process_goes_on_where_it_stood_and_hears_what_it_missed() -> None:
    ran = run(say_step(1), *LATER, Pause(1, 0.15, 0.3))
    assert peer(ran, 1).times(Received)[1:4] == [pytest.approx(0.45)] * 3
    assert ran.nodes[1].step == 10


def test_who_stands_still_for_too_long_is_out_and_a_zombie_cannot_write() -> None:
    def answer(peer: Puppet, event: Event) -> list[Any] | None:
        if isinstance(event, StepFinished) and peer.me == 1:
            return [Send(0, "word", event.step, 0), Compute(event.step + 1)]
        return None

    ran = run(answer, Pause(1, 0.15, 0.6), num_steps=12)
    assert ran.arbiter.views[1].reason == "fenced worker 1"
    assert [event.clock for event in events(ran, 0, Received)] == [0]  # type: ignore[union-attr]
    assert ran.nodes[1].step > 1, "it ran on for a while"
    assert ran.num_refused >= 1


def test_a_server_that_died_is_started_anew_elsewhere_with_a_fresh_peer() -> None:
    ran = run(quiet, Crash(0, 0.35), num_servers=1)
    assert ran.arbiter.views[1].reason == "lost worker 0, server 0; moved server 0 to the process of worker 1"
    assert ran.arbiter.views[1].members == (1, 2, 3)
    seen = [event for _, event in peer(ran, 3)._seen]
    assert seen[:2] == [Started(1), MembersChanged(1, (1, 2, 3), ran.arbiter.views[1].reason)]
    assert ran.nodes[3].process == 1


def reducing(peer: Puppet, event: Event) -> list[Any] | None:
    """All reduce after every step; one that never happened is asked for again."""
    group = peer.workers
    if isinstance(event, StepFinished):
        peer.step = event.step + 1
        return [Reduce(group, "value", peer.step, peer.world.params[0], MEAN, 1.0)]
    if isinstance(event, MembersChanged) and peer.step > len(peer.seen(Reduced)):
        return [Reduce(group, "value", peer.step, peer.world.params[0], MEAN, 1.0)]
    return [Compute(peer.step)] if isinstance(event, Reduced) else None


def test_a_reduction_that_a_death_overtakes_never_happened_and_can_be_asked_for_again() -> None:
    ran = run(reducing, Crash(1, 0.35))
    weights = [event.weight for event in events(ran, 0, Reduced)]  # type: ignore[union-attr]
    assert weights == [3.0] * 3 + [2.0] * 7
    assert weights == [event.weight for event in events(ran, 2, Reduced)]  # type: ignore[union-attr]


def test_a_reduction_across_a_partition_waits_for_its_end() -> None:
    ran = run(reducing, Partition((1,), 0.15, 0.3))
    times = peer(ran, 0).times(Reduced)
    assert times[0] < 0.15
    assert times[1] >= 0.45
    assert len(times) == 10


def test_a_gradient_that_is_not_finite_is_told_with_no_samples() -> None:
    def gradient(worker: int, step: int, w: Any) -> Any:
        return np.full_like(w, np.inf) if (worker, step) == (1, 2) else w

    ran = run(quiet, gradient=gradient)
    samples = [event.samples for event in events(ran, 1, StepFinished)]  # type: ignore[union-attr]
    assert samples == [1.0, 1.0, 0.0, *[1.0] * 7]


def test_slow_steps_take_longer_and_spikes_delay_messages() -> None:
    ran = run(say_step(1), *LATER, Slow(0, 0.15, 0.1, 4.0), Spike(0.55, 0.1, 0.2))
    steps = peer(ran, 0).times(StepFinished)
    assert steps[:4] == pytest.approx([0.1, 0.2, 0.6, 0.7])
    assert peer(ran, 1).times(Received)[2] == pytest.approx(0.6 + 0.2 + LATENCY_S)


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


def test_a_message_of_a_view_that_its_target_has_not_heard_of_waits_for_it() -> None:
    def answer(peer: Puppet, event: Event) -> list[Any] | None:
        if isinstance(event, MembersChanged) and peer.me == 0:
            return [Send(2, "word", event.view, 0)]
        return None

    ran = run(answer, Crash(1, 0.35), news_s=0.2)
    order = [type(event).__name__ for event in events(ran, 2, MembersChanged, Received)]
    assert order[:2] == ["MembersChanged", "Received"]
