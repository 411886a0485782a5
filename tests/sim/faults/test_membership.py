"""Members change: views are decided and told, and servers are started anew."""

import pytest
from support.peers.puppets import Puppet
from support.simulated.faulty_worlds import LATENCY_S, LATER, LINGER_S, quiet, run, say_step

from weft.core.events import Event, MembersChanged, Received, Started, StepFinished
from weft.sim.faults.plan import Crash, Partition


def test_a_dead_worker_is_out_for_all_others_and_they_end() -> None:
    ran = run(quiet, Crash(1, 0.35))
    changes = ran.events(0, MembersChanged)
    assert changes[0] == MembersChanged(1, (0, 2), "lost worker 1")
    assert ran.views[1].since_ns == pytest.approx(0.4e9)
    assert [node.step for node in ran.simulation.nodes] == [10, 3, 10]
    assert ran.events(1, MembersChanged) == []


def test_a_worker_that_has_ended_stays_for_a_while_and_leaves_unless_all_have_ended() -> None:
    ran = run(say_step(1), *LATER, num_workers=2)
    assert [view.reason for view in ran.views[1:]] == ["finished worker 0"]
    assert ran.views[1].since_ns == pytest.approx((1.0 + LINGER_S) * 1e9)
    assert [event.clock for event in ran.events(1, Received)] == list(range(10))


def test_where_workers_keep_step_one_that_has_ended_stays_until_the_others_have_made_its_last_step() -> None:
    ran = run(say_step(1), *LATER, num_workers=2, num_steps=10, in_step=True)
    last_steps = [now for now, event in ran.peer(1)._seen if event == StepFinished(9, 1.0, None)]
    assert last_steps[0] > 1.0 + LINGER_S + LATENCY_S
    assert all(view.since_ns >= round(last_steps[0] * 1e9) for view in ran.views[1:])


def test_a_server_that_died_is_started_anew_elsewhere_with_a_fresh_peer() -> None:
    ran = run(quiet, Crash(0, 0.35), num_servers=1)
    assert ran.views[1].reason == "lost worker 0, server 0; moved server 0 to the process of worker 1"
    assert ran.views[1].members == (1, 2, 3)
    seen = [event for _, event in ran.peer(3)._seen]
    assert seen[:2] == [Started(1), MembersChanged(1, (1, 2, 3), ran.views[1].reason)]
    assert ran.node(3).process == 1


def test_a_server_that_was_cut_off_never_hears_of_the_view_in_which_it_is_another() -> None:
    heard: list[tuple[int, int]] = []

    def answer(peer: Puppet, event: Event) -> None:
        if isinstance(event, MembersChanged) and peer.me == 3:
            heard.append((peer.world.view, event.view))

    ran = run(answer, Partition((0,), 0.15, 0.7), num_servers=1, num_steps=12)
    assert [view.reason for view in ran.views[1:2]] == [
        "fenced worker 0, server 0; moved server 0 to the process of worker 1"
    ]
    assert {incarnation for incarnation, _ in heard} == {1}


def test_an_earlier_incarnation_is_no_member_though_its_node_is() -> None:
    ran = run(quiet, Crash(0, 0.35), num_servers=1)
    old, new = (node for node in ran.injection.liveness.incarnations if node.id == 3)
    membership = ran.injection.membership
    assert [membership.is_member(node) for node in (old, new, ran.node(0))] == [False, True, False]
