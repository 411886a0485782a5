"""Nodes do what they do only while they can, by their own clocks."""

from random import Random
from typing import Any

import numpy as np
import pytest
from support.peers.puppets import Puppet, Puppets
from support.simulated.faulty_worlds import LATER, quiet, run, say_step

from weft.core.actions import Compute, Note, SetTimer
from weft.core.events import Event, PortionAsked, Received, Started, StepFinished, TimerFired
from weft.core.names import Bucket, Roles
from weft.core.world import World
from weft.sim.compute import PerSample
from weft.sim.faults.failable import FailableLiveness
from weft.sim.faults.in_flight import FailableNode
from weft.sim.faults.plan import Fault, Faults, Pause, Skew, Slow
from weft.sim.kernel import Kernel
from weft.store.ghost import GhostStore
from weft.testing.peers import peer_of
from weft.testing.worlds import taking


def test_a_paused_process_goes_on_where_it_stood_and_hears_what_it_missed() -> None:
    ran = run(say_step(1), *LATER, Pause(1, 0.15, 0.3))
    assert ran.peer(1).times(Received)[1:4] == [pytest.approx(0.45)] * 3
    assert ran.node(1).step == 10


def test_a_gradient_that_is_not_finite_is_told_with_no_samples() -> None:
    def gradient(worker: int, step: int, w: Any) -> Any:
        return np.full_like(w, np.inf) if (worker, step) == (1, 2) else w

    ran = run(quiet, gradient=gradient)
    samples = [event.samples for event in ran.events(1, StepFinished)]
    assert samples == [1.0, 1.0, 0.0, *[1.0] * 7]


def test_clocks_of_nodes_differ_and_timers_go_by_them() -> None:
    def answer(peer: Puppet, event: Event) -> list[Any] | None:
        if isinstance(event, Started):
            return [SetTimer("tea", peer.now + 0.25), Compute(0)]
        return [Note("tea", peer.now)] if isinstance(event, TimerFired) else None

    ran = run(answer, Skew(1, offset_s=5.0, rate=0.5))
    assert ran.peer(0).times(TimerFired) == [pytest.approx(0.25)]
    assert ran.peer(1).times(TimerFired) == [pytest.approx(5.25)]
    fired = {node: now_ns for now_ns, node, event, _ in ran.recording.entries if isinstance(event, TimerFired)}
    assert fired[1] == pytest.approx(0.5e9)


def test_a_share_of_a_process_that_stands_still_asks_for_its_portion_when_it_wakes() -> None:
    def answer(peer: Puppet, event: Event) -> list[Any] | None:
        return [Compute(len(peer.seen(StepFinished)), None)] if isinstance(event, PortionAsked) else None

    script = taking(lambda portion, w: w, [1.0], num_epochs=1)
    ran = run(answer, Pause(1, 0.0, 0.3), script=script)
    assert ran.peer(0).times(PortionAsked) == [0.0]
    assert ran.peer(1).times(PortionAsked) == [pytest.approx(0.3)]


def liveness(*schedule: Fault) -> FailableLiveness:
    """Of two workers and a server, which sits with worker 0."""
    made = FailableLiveness(Kernel(), World(Roles(2, 1), (Bucket(1),)), Faults(schedule))
    for id in range(3):
        begin(made, id)
    return made


def begin(liveness: FailableLiveness, id: int) -> FailableNode:
    return liveness.new_node(id, peer_of(Puppets(num_servers=1), id, 2), GhostStore([Bucket(1)], []), None)


def test_what_comes_due_for_a_paused_node_waits_and_for_one_that_is_gone_is_forgotten() -> None:
    nodes, done = liveness(), list[tuple[int, str]]()

    def note(node: FailableNode, what: str) -> None:
        done.append((node.id, what))

    act = nodes.when_able(note)
    nodes.pause(0)
    nodes.end([nodes.node(1)])
    for id in range(3):
        act(nodes.node(id), "first")
    act(nodes.node(0), "second")
    assert done == []
    nodes.wake(0)
    nodes.wake(1)
    assert done == [(0, "first"), (0, "second"), (2, "first")]


def test_a_new_incarnation_is_present_in_the_place_of_the_old_one_which_may_run_on() -> None:
    nodes = liveness(Skew(1, offset_s=5.0, rate=2.0))
    old, new = nodes.node(1), begin(nodes, 1)
    assert (nodes.node(1), nodes.is_present(old), nodes.is_present(new)) == (new, False, True)
    assert nodes.on_process(1) == [old, new]
    assert (old.offset_s, old.rate, new.offset_s, new.rate) == (5.0, 2.0, 0.0, 1.0)


def test_a_node_that_is_moved_to_a_process_that_stands_still_stands_still() -> None:
    nodes = liveness()
    nodes.pause(1)
    moved = begin(nodes, 2)
    nodes.move(moved, 1)
    assert (moved.process, moved.is_paused) == (1, True)


def test_iterations_that_begin_while_a_worker_is_slow_take_longer() -> None:
    compute = liveness(Slow(0, 0.0, 1.0, 2.0), Slow(0, 0.0, 1.0, 3.0)).slowed(PerSample([0.5, 0.5]))
    assert [compute.seconds(worker, 0, 1.0, Random(0)) for worker in (0, 1)] == [3.0, 0.5]
