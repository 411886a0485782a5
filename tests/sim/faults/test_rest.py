"""Newcomers come in when the world is at rest."""

from itertools import pairwise
from typing import Any

import pytest
from support.peers.puppets import Puppet
from support.simulated.faulty_worlds import LATENCY_S, STEP_S, run

from weft.core.actions import Action, Compute, Send
from weft.core.events import Event, MembersChanged, Received, Returned, StepFinished
from weft.sim.faults.plan import Crash, Join, Partition, Rejoin, Slow
from weft.sim.faults.rest import LOOK_NS, RestPhase

LOOK_S = LOOK_NS / 1e9
BACK = Crash(1, 0.35), Rejoin(1, 0.55)


def counting(peer: Puppet, event: Event) -> list[Any] | None:
    """Trains alone, and counts its steps as peers do."""
    if isinstance(event, StepFinished):
        peer.step = event.step + 1
        return [Compute(peer.step)]
    return None


def test_a_lost_worker_is_replaced_before_a_step_that_all_begin_together_where_they_keep_step() -> None:
    ran = run(counting, *BACK, Slow(2, 0.0, 9.0, 2.0), in_step=True)
    assert [view.reason for view in ran.views[1:3]] == ["lost worker 1", "joined worker 1"]
    assert ran.views[2].members == (0, 1, 2)
    first = ran.events(1, StepFinished)[0]
    before = [node.step for node in ran.injection.liveness.incarnations[:3]]
    assert first.step == 6, "worker 0 had begun step 5 when the newcomer wanted to come"
    assert ran.views[2].since_ns == pytest.approx(6 * 2 * STEP_S * 1e9, abs=2 * LOOK_NS), "the slowest came last"
    assert before == [10, 3, 10]
    assert ran.node(1).step == 10


def test_where_nobody_keeps_step_each_stops_before_its_next_one() -> None:
    ran = run(counting, *BACK, Slow(2, 0.0, 9.0, 2.0))
    assert ran.views[2].since_ns == pytest.approx(0.6e9, abs=2 * LOOK_NS)
    assert ran.events(1, StepFinished)[0].step == 6, "where its sponsor, worker 0, is"


def test_scripts_go_on_together_when_the_newcomer_has_taken_over_what_it_needs() -> None:
    ran = run(counting, *BACK)
    welcomed_s = ran.views[2].since_ns / 1e9 + LATENCY_S
    times = ran.peer(0).times(StepFinished)
    waits = [later - earlier for earlier, later in pairwise(times)]
    assert max(waits) == pytest.approx(STEP_S + LATENCY_S, abs=2 * LOOK_S)
    assert ran.peer(1).times(StepFinished)[0] == pytest.approx(welcomed_s + STEP_S, abs=2 * LOOK_S)


def test_a_newcomer_takes_over_the_parameters_of_the_lowest_other_worker() -> None:
    ran = run(counting, *BACK, gradient=lambda worker, step, w: w * 0.0 + worker + 1)
    seen = ran.taken_over(1)
    assert seen == [float(ran.simulation.nodes[0].store.replica.array("params", 0)[0])]  # type: ignore[attr-defined]


def test_messages_come_in_before_the_newcomers_do() -> None:
    def answer(peer: Puppet, event: Event) -> list[Any] | None:
        said = [Send(2, "word", event.step, 0)] if isinstance(event, StepFinished) and peer.me == 0 else []
        return said + (counting(peer, event) or []) or None

    ran = run(answer, Join(1, 0.25), Slow(2, 0.75, 9.0, 3.0))
    assert [event.clock for event in ran.events(2, Received)] == list(range(10))
    assert ran.events(0, Returned) == []


def test_a_worker_that_is_not_there_at_the_start_comes_later() -> None:
    ran = run(counting, Join(2, 0.25))
    assert [(view.members, view.reason) for view in ran.views[1:3]] == [
        ((0, 1), "without worker 2"),
        ((0, 1, 2), "joined worker 2"),
    ]
    assert ran.events(2, StepFinished)[0].step == 3


def test_who_was_not_welcomed_when_another_is_lost_leaves_with_it_and_comes_again() -> None:
    taken_in_s = 0.6
    ran = run(counting, *BACK, Crash(2, taken_in_s + 0.004 - 0.05), Partition((1,), taken_in_s - 0.01, 0.2))
    reasons = [view.reason for view in ran.views[1:]]
    assert reasons[:2] == ["lost worker 1", "lost worker 2"]
    assert "joined worker 1" in reasons
    assert ran.node(1).step == 10


def test_nobody_comes_once_a_script_has_ended() -> None:
    ran = run(counting, Crash(1, 0.35), Rejoin(1, 1.02))
    assert "joined worker 1" not in [view.reason for view in ran.views]
    assert [node.step for node in ran.injection.liveness.incarnations] == [10, 3, 10]
    assert ran.injection.rest.phase is RestPhase.NONE


def test_one_that_was_never_lost_is_not_replaced() -> None:
    ran = run(counting, Rejoin(1, 0.35))
    assert len(ran.injection.liveness.incarnations) == 3


def test_a_replacement_waits_until_the_loss_has_been_noticed() -> None:
    ran = run(counting, Crash(1, 0.35), Rejoin(1, 0.36))
    assert [view.reason for view in ran.views[1:3]] == ["lost worker 1", "joined worker 1"]


def test_who_has_stopped_makes_one_more_step_if_another_waits_for_it() -> None:
    waiting: list[int] = []

    def answer(peer: Puppet, event: Event) -> list[Action] | None:
        """After each step worker 2 waits for the next word of worker 0, which says one after each of its own."""
        if isinstance(event, StepFinished):
            peer.step = event.step + 1
            if peer.me == 0:
                return [Send(2, "word", event.step, 0), Compute(peer.step)]
            if peer.me == 2 and 0 in peer.members:
                waiting.append(peer.step)
                return []
        if isinstance(event, Received | MembersChanged) and peer.me == 2 and waiting:
            return [Compute(waiting.pop())]
        return None

    ran = run(answer, Crash(1, 0.35), Rejoin(1, 0.62), Slow(2, 0.0, 9.0, 1.5))
    assert ran.views[2].reason == "joined worker 1"
    came_s = ran.views[2].since_ns / 1e9
    others = [[now for now in ran.peer(worker).times(StepFinished) if now < came_s][-1] for worker in (0, 2)]
    assert others[0] == pytest.approx(others[1] + STEP_S, abs=2 * LOOK_S), "it begins when worker 2 has to wait"
    assert came_s == pytest.approx(others[0] + LATENCY_S, abs=2 * LOOK_S)


def test_the_world_stays_at_rest_for_as_long_as_coming_in_takes() -> None:
    usual, longer = (run(counting, *BACK, rest_s=rest_s) for rest_s in (0.0, 0.07))
    assert (longer.views[2].since_ns - usual.views[2].since_ns) / 1e9 == pytest.approx(0.07, abs=2 * LOOK_S)
    waits = [later - earlier for earlier, later in pairwise(longer.peer(0).times(StepFinished))]
    assert max(waits) == pytest.approx(STEP_S + LATENCY_S + 0.07, abs=4 * LOOK_S)


def test_a_loss_in_a_rest_begins_it_anew() -> None:
    ran = run(counting, *BACK, Crash(2, 0.7), rest_s=0.15)
    assert [view.reason for view in ran.views[1:4]] == ["lost worker 1", "lost worker 2", "joined worker 1"]
    assert ran.views[3].since_ns / 1e9 == pytest.approx(0.75 + 0.15, abs=0.01), "0.05 s after the death it is noticed"
