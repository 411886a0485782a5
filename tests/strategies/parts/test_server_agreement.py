"""How servers agree on the step that was closed last, told by the bulk-synchronous server."""

from support.peers.two_servers import (
    BOTH,
    FIRST,
    NOBODY,
    OTHER,
    SUM1,
    answers,
    applied,
    changed,
    copy_of,
    push,
    said,
    server_of,
    whole,
)

from weft.core.actions import Combine, Note, Send
from weft.core.events import Started
from weft.testing.peers import IN0, IN1, P0, P1, bodiless, is_plain, tell


def test_after_a_change_the_first_server_says_what_was_closed_last() -> None:
    first = server_of(FIRST)
    assert tell(first, changed(1, 0, 1)) == [Send(OTHER, "closed", 0, 0, data=NOBODY)]
    tell(first, push(0, 0), push(1, 0), whole(0, "3"))
    assert tell(first, changed(2, 0, 1)) == [Send(OTHER, "closed", 1, 0, data=BOTH)]


def test_a_server_that_missed_a_close_makes_up_for_it() -> None:
    other = server_of(OTHER)
    tell(other, push(0, 0, 1), push(1, 0, 1), changed(1, 0))
    assert other.waiting_for() == "the servers to agree on the step that was closed last"
    assert tell(other, push(0, 0, 1)) == []
    assert tell(other, said(FIRST, "closed", 1, BOTH)) == [*applied(2.0, 1), Send(0, "again", 0, 1)]
    assert tell(other, push(0, 0, 1)) == answers(1, 1, 0)


def test_a_server_that_missed_nothing_begins_the_step_again() -> None:
    other = server_of(OTHER)
    tell(other, push(0, 0, 1), push(1, 0, 1), changed(1, 0))
    assert tell(other, said(FIRST, "closed", 0, NOBODY)) == []
    assert tell(other, push(0, 0, 1)) == [
        Combine(SUM1, 0.0, IN1),
        Send(FIRST, "whole", 0, 0, data={"workers": "1"}),
    ]


def test_what_a_moved_server_missed_is_lost_and_noted() -> None:
    other = server_of(OTHER)
    assert tell(other, Started(4), changed(4, 0)) == [Send(0, "ask", 0, 1)]
    assert tell(other, said(FIRST, "closed", 6, BOTH)) == []
    assert tell(other, push(0, 5, 1)) == []
    assert tell(other, copy_of(0, 5, 1)) == [
        Combine(P1, 0.0, IN1),
        Note("lost_updates", 1),
        Send(0, "again", 0, 1),
    ]
    assert tell(other, push(0, 5, 1)) == answers(6, 1, 0)


def test_a_moved_first_server_asks_the_others_for_their_clocks() -> None:
    first = server_of(FIRST)
    assert tell(first, Started(4), changed(4, 0)) == [Send(0, "ask", 0, 0), Send(OTHER, "ask", 0, 0)]
    assert tell(first, copy_of(0, 5, 0)) == [Combine(P0, 0.0, IN0)]
    assert tell(first, push(0, 5)) == []
    assert tell(first, said(OTHER, "clock", 6, BOTH)) == [
        Note("lost_updates", 1),
        Send(OTHER, "closed", 6, 0, data=BOTH),
        Send(0, "again", 0, 0),
    ]
    assert tell(first, push(0, 5)) == answers(6, 0, 0)


def test_a_moved_first_server_that_knows_more_than_the_others_takes_them_along() -> None:
    first, other = server_of(FIRST), server_of(OTHER)
    tell(first, Started(4), changed(4, 0), said(OTHER, "clock", 4, BOTH))
    assert tell(first, copy_of(0, 5, 0)) == [Combine(P0, 0.0, IN0), Send(OTHER, "closed", 5, 0, data={})]
    tell(other, changed(4, 0))
    assert tell(other, said(FIRST, "closed", 5, {})) == [Note("lost_updates", 5)]


def test_a_moved_first_server_goes_on_asking_when_members_change_again() -> None:
    first = server_of(FIRST)
    tell(first, Started(4), changed(4, 0), copy_of(0, 5, 0))
    assert tell(first, changed(5, 0)) == [Send(OTHER, "ask", 0, 0)]
    assert tell(first, said(OTHER, "clock", 5, BOTH)) == [Send(OTHER, "closed", 5, 0, data=BOTH)]


def test_a_server_tells_its_clock_as_soon_as_it_knows_it() -> None:
    other = server_of(OTHER)
    tell(other, changed(1, 0))
    assert tell(other, bodiless(FIRST, "ask")) == [Send(FIRST, "clock", 0, 0, data=NOBODY)]
    moved = server_of(OTHER)
    tell(moved, Started(1), changed(1, 0))
    assert tell(moved, bodiless(FIRST, "ask")) == []
    assert tell(moved, copy_of(0, 3, 1)) == [Combine(P1, 0.0, IN1), Send(FIRST, "clock", 3, 0, data={})]


def test_snapshots_are_plain_while_servers_agree() -> None:
    first, other = server_of(FIRST), server_of(OTHER)
    tell(first, Started(4), changed(4, 0), said(OTHER, "clock", 4, BOTH))
    tell(other, Started(4), changed(4, 0), said(FIRST, "closed", 4, BOTH))
    assert first.snapshot()["clocks"] == {"3": 4}
    assert other.snapshot()["agreed"] == [4, BOTH]
    assert is_plain(first)
    assert is_plain(other)
