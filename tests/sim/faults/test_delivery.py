"""Messages are received in the view of their sending, or come back."""

from typing import Any

from support.peers.puppets import Puppet
from support.simulated.faulty_worlds import LATER, reducing, run, say_step

from weft.core.actions import Send
from weft.core.events import Event, MembersChanged, Received, Reduced, Returned
from weft.sim.faults.plan import Crash, Duplicates, Loss


def test_what_was_sent_to_the_dead_comes_back_after_the_change_with_its_view() -> None:
    ran = run(say_step(1), Crash(1, 0.35))
    told = ran.events(0, MembersChanged, Returned)
    assert told[0] == MembersChanged(1, (0, 2), "lost worker 1")
    assert told[1] == Returned(1, "word", 3, 0, None, 1.0, None, view=0)
    assert told[2:4] == [Returned(1, "word", step, 0, None, 1.0, None, view=1) for step in (4, 5)]


def test_a_broken_channel_returns_what_was_under_way_in_order_and_works_again() -> None:
    ran = run(say_step(1), *LATER, Loss(0, 1, 0.15, 0.3))
    assert [event.clock for event in ran.events(0, Returned)] == [1, 2, 3]
    assert [event.clock for event in ran.events(1, Received)] == [0, 4, 5, 6, 7, 8, 9]


def test_a_peer_that_sends_again_what_came_back_keeps_the_channel_in_order() -> None:
    def answer(peer: Puppet, event: Event) -> list[Any] | None:
        if isinstance(event, Returned) and event.target in peer.members:
            return [Send(event.target, event.kind, event.clock, event.bucket)]
        return say_step(1)(peer, event)

    ran = run(answer, *LATER, Loss(0, 1, 0.15, 0.3))
    assert [event.clock for event in ran.events(1, Received)] == list(range(10))


def test_second_comings_are_removed() -> None:
    ran = run(say_step(1), *LATER, Duplicates(0.0, 9.0, later_s=0.15))
    assert [event.clock for event in ran.events(1, Received)] == list(range(10))
    assert ran.injection.delivery.num_duplicates > 5


def test_a_message_of_a_view_that_its_target_has_not_heard_of_waits_for_it() -> None:
    def answer(peer: Puppet, event: Event) -> list[Any] | None:
        if isinstance(event, MembersChanged) and peer.me == 0:
            return [Send(2, "word", event.view, 0)]
        return None

    ran = run(answer, Crash(1, 0.35), news_s=0.2)
    order = [type(event).__name__ for event in ran.events(2, MembersChanged, Received)]
    assert order[:2] == ["MembersChanged", "Received"]


def test_a_reduction_that_a_death_overtakes_never_happened_and_can_be_asked_for_again() -> None:
    ran = run(reducing, Crash(1, 0.35))
    weights = [event.weight for event in ran.events(0, Reduced)]
    assert weights == [3.0] * 3 + [2.0] * 7
    assert weights == [event.weight for event in ran.events(2, Reduced)]
