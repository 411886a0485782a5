"""Rounds, and how all workers change to the graph of a new view before the same one."""

import pytest

from weft.core.actions import Action, Send
from weft.core.events import Returned
from weft.core.names import Buffer
from weft.core.world import World
from weft.strategies import Gossip
from weft.strategies.parts.rounds import Rounds, again
from weft.testing.peers import ONE, bodiless
from weft.topologies import Exponential, Ring, Topology


def rounds_of(me: int, num_workers: int = 4, topology: Topology | None = None, next: int = 0) -> Rounds:
    """A worker that has ended all rounds before `next`."""
    topology = topology or Ring()
    rounds = Rounds(me, World(Gossip().roles(num_workers), ONE, topology.graph(num_workers)), topology)
    for _ in range(next):
        begin(rounds)
        rounds.end()
    return rounds


def begin(rounds: Rounds) -> bool:
    rounds.is_due = True
    return rounds.begin()


def told(to: int, kind: str, clock: int) -> Send:
    return Send(to, kind, clock, 0)


def test_a_round_begins_when_it_is_due() -> None:
    rounds = rounds_of(0)
    assert not rounds.begin()
    assert begin(rounds)
    assert (rounds.next, rounds.is_due, rounds.is_under_way) == (1, False, True)
    assert rounds.end() == []
    assert not rounds.is_under_way


def test_without_changes_nothing_is_said() -> None:
    rounds = rounds_of(1, topology=Exponential(one_peer=True))
    assert [rounds.targets(clock) for clock in range(3)] == [(2,), (3,), (2,)]
    assert [rounds.sources(clock) for clock in range(3)] == [(0,), (3,), (0,)]
    assert not rounds.is_crossing


def test_everybody_tells_the_first_of_the_living_which_round_it_begins_next() -> None:
    assert rounds_of(2, next=5).on_members_changed(1, (0, 1, 2)) == [told(0, "clock", 5)]
    assert rounds_of(2, next=5).on_members_changed(1, (1, 2)) == [told(1, "clock", 5)]


def test_the_first_answers_with_the_latest_of_all() -> None:
    rounds = rounds_of(0, next=3)
    assert rounds.on_members_changed(1, (0, 1, 2)) == []
    assert rounds.on_received(bodiless(1, "clock", 5)) == []
    assert rounds.on_received(bodiless(2, "clock", 4)) == [told(1, "until", 5), told(2, "until", 5)]


def test_no_round_begins_before_it_is_agreed_over_which_graph() -> None:
    rounds = rounds_of(1, next=3)
    rounds.on_members_changed(1, (0, 1, 2))
    assert not begin(rounds)
    rounds.on_received(bodiless(0, "until", 4))
    assert rounds.begin()
    assert rounds.targets(3) == (0, 2)


def test_rounds_before_the_agreed_one_go_over_the_old_graph_without_the_departed() -> None:
    rounds = rounds_of(1, num_workers=5, next=3, topology=Exponential(one_peer=True))
    rounds.on_members_changed(1, (0, 1, 3, 4))
    rounds.on_received(bodiless(0, "until", 6))
    assert [rounds.targets(clock) for clock in (3, 4, 5, 6, 7)] == [(), (3,), (0,), (3,), (4,)]
    assert [rounds.sources(clock) for clock in (3, 4, 5, 6, 7)] == [(0,), (4,), (), (0,), (4,)]
    assert [rounds.view_of(clock) for clock in (3, 4, 5, 6, 7)] == [0, 0, 0, 1, 1]


def test_who_has_ended_the_old_rounds_is_ready_and_waits_for_all() -> None:
    rounds = rounds_of(1, next=3)
    rounds.on_members_changed(1, (0, 1, 2))
    assert rounds.on_received(bodiless(0, "until", 4)) == []
    begin(rounds)
    assert rounds.end() == [told(0, "ready", 4)]
    assert not begin(rounds)
    assert rounds.on_received(bodiless(0, "go", 4)) == []
    assert rounds.begin()
    assert not rounds.is_crossing


def test_who_is_there_already_is_ready_at_once_unless_its_last_round_is_under_way() -> None:
    rounds = rounds_of(1, next=4)
    rounds.on_members_changed(1, (0, 1, 2))
    assert rounds.on_received(bodiless(0, "until", 4)) == [told(0, "ready", 4)]
    rounds = rounds_of(1, next=3)
    begin(rounds)
    rounds.on_members_changed(1, (0, 1, 2))
    assert rounds.on_received(bodiless(0, "until", 4)) == []
    assert rounds.end() == [told(0, "ready", 4)]


def test_the_first_says_go_when_all_are_ready() -> None:
    rounds = rounds_of(0, next=5)
    rounds.on_members_changed(1, (0, 1, 2))
    rounds.on_received(bodiless(1, "clock", 5))
    rounds.on_received(bodiless(2, "clock", 4))
    assert rounds.on_received(bodiless(1, "ready", 5)) == []
    assert rounds.on_received(bodiless(2, "ready", 5)) == [told(1, "go", 5), told(2, "go", 5)]
    assert not rounds.is_crossing


def test_the_last_worker_agrees_with_itself() -> None:
    rounds = rounds_of(2, next=5)
    assert rounds.on_members_changed(1, (2,)) == []
    assert begin(rounds)
    assert rounds.targets(5) == ()


def test_another_change_begins_the_agreement_again() -> None:
    rounds = rounds_of(1, next=4)
    rounds.on_members_changed(1, (0, 1, 2))
    rounds.on_received(bodiless(0, "until", 4))
    assert rounds.on_members_changed(2, (1, 2)) == []
    assert rounds.on_received(bodiless(2, "clock", 4)) == [told(2, "until", 4)]
    assert rounds.on_received(bodiless(2, "ready", 4)) == [told(2, "go", 4)]
    assert rounds.targets(4) == (2,)


def test_who_missed_a_go_that_another_had_heard_goes_over_that_graph_too() -> None:
    """Worker 2 has begun round 4 over the graph of view 1; worker 1 was ready for it."""
    rounds = rounds_of(1, num_workers=6, next=4)
    rounds.on_members_changed(1, (0, 1, 2, 4, 5))
    assert rounds.on_received(bodiless(0, "until", 4)) == [told(0, "ready", 4)]
    rounds.on_members_changed(2, (1, 2, 4, 5))
    assert rounds.on_received(bodiless(4, "clock", 4)) == rounds.on_received(bodiless(5, "clock", 4)) == []
    assert rounds.on_received(bodiless(2, "clock", 5)) == [told(to, "until", 5) for to in (2, 4, 5)]
    assert [rounds.view_of(clock) for clock in (3, 4, 5)] == [0, 1, 2]
    assert begin(rounds)
    assert rounds.targets(4) == (2,), "worker 0 has left since"


def test_a_round_over_a_graph_that_another_has_reached_is_known_before_the_word_comes() -> None:
    rounds = rounds_of(1, next=4)
    rounds.on_members_changed(1, (0, 1, 2))
    rounds.on_received(bodiless(0, "until", 4))
    rounds.on_members_changed(2, (0, 1))
    assert [rounds.view_of(clock) for clock in (3, 4)] == [0, 1]


@pytest.mark.parametrize("until", [3, 4])
def test_a_graph_that_nobody_who_is_left_has_reached_is_never_used(until: int) -> None:
    rounds = rounds_of(1, next=3)
    rounds.on_members_changed(1, (0, 1, 2))
    rounds.on_received(bodiless(0, "until", 4))
    rounds.on_members_changed(2, (0, 1))
    rounds.on_received(bodiless(0, "until", until))
    assert [rounds.view_of(clock) for clock in (2, until, 4, 5)] == [0, 2, 2, 2]


def test_it_says_whose_word_is_missing() -> None:
    first = rounds_of(0, next=3)
    first.on_members_changed(1, (0, 1, 2))
    assert first.waiting_for() == "word from worker 1, 2 before which round the graph of view 1 holds"
    first.on_received(bodiless(1, "clock", 3))
    first.on_received(bodiless(2, "clock", 3))
    first.on_received(bodiless(1, "ready", 3))
    assert first.waiting_for() == "word from worker 2 that the rounds before 3, over the old graph, are over"
    other = rounds_of(2, next=3)
    other.on_members_changed(1, (0, 1, 2))
    assert other.waiting_for() == "word from worker 0 before which round the graph of view 1 holds"
    other.on_received(bodiless(0, "until", 3))
    assert other.waiting_for() == "word from worker 0 that the rounds before 3, over the old graph, are over"


def test_what_was_returned_is_sent_as_it_was() -> None:
    body = Buffer("inbox", 1)
    sent: Action = Send(2, "mix", 7, 1, body, 0.5, {"a": 1})
    assert again(Returned(2, "mix", 7, 1, body, 0.5, {"a": 1}, 3)) == sent


def test_a_graph_with_newcomers_holds_at_once_from_the_next_round_on() -> None:
    rounds = rounds_of(1, next=3)
    rounds.on_members_changed(1, (1, 2))
    rounds.on_received(bodiless(2, "clock", 3))
    rounds.on_received(bodiless(2, "ready", 3))
    assert rounds.targets(3) == (2,)
    rounds.on_joined(2, (0, 1, 2))
    assert (rounds.next, rounds.view_of(3), rounds.departed, rounds.is_crossing) == (3, 2, {3}, False)
    assert begin(rounds)
    assert rounds.targets(3) == rounds.sources(3) == (0, 2)


def test_newcomers_end_a_crossing_for_which_only_a_round_that_all_have_begun_was_awaited() -> None:
    rounds = rounds_of(1, next=3)
    begin(rounds)
    rounds.on_members_changed(1, (0, 1, 2))
    assert rounds.on_received(bodiless(0, "until", 4)) == []
    rounds.on_joined(2, (0, 1, 2, 3))
    assert rounds.end() == []
    assert begin(rounds)
    assert (rounds.view_of(4), rounds.targets(4)) == (2, (0, 2))


def test_a_newcomer_goes_alone_through_the_rounds_before_its_first() -> None:
    rounds = rounds_of(1, num_workers=5)
    rounds.take_over(6, 7, 2, (0, 1, 3, 4))
    assert (rounds.next, rounds.targets(6), rounds.sources(6)) == (6, (), ())
    assert rounds.targets(7) == rounds.sources(7) == (0, 3)


def test_newcomers_that_leave_again_are_among_the_departed() -> None:
    rounds = rounds_of(1, next=3)
    rounds.on_members_changed(1, (0, 1, 2))
    rounds.on_joined(2, (0, 1, 2, 3))
    assert rounds.on_members_changed(3, (0, 1, 2)) == [told(0, "clock", 3)]
    assert rounds.departed == {3}
