"""How servers agree on the step that was closed last, told by the bulk-synchronous server."""

from typing import Any

from weft.core.actions import Action, Apply, Combine, Note, Send
from weft.core.events import Data, MembersChanged, Received, Started
from weft.core.names import INBOX, Buffer
from weft.strategies import ParameterServer
from weft.testing.peers import IN0, IN1, P0, P1, TWO, bodiless, is_plain, peer_of, received, tell

SUM0, SUM1 = Buffer("closing.sum", 0), Buffer("closing.sum", 1)
FIRST, OTHER = 2, 3
BOTH = {"members": "3", "carried": "0"}
NOBODY = {"members": "0", "carried": "0"}


def server_of(me: int) -> Any:
    """One of two servers with a bucket each, for two workers."""
    return peer_of(ParameterServer(servers=2), me, num_workers=2, buckets=TWO)


def push(worker: int, clock: int, bucket: int = 0, samples: float = 1.0) -> Received:
    return received(worker, "push", clock, bucket, samples)


def said(source: int, kind: str, clock: int, data: Data) -> Received:
    return received(source, kind, clock, data=data)


def whole(clock: int, workers: str) -> Received:
    return said(OTHER, "whole", clock, {"workers": workers})


def changed(view: int, *workers: int) -> MembersChanged:
    return MembersChanged(view, (*workers, FIRST, OTHER), "somebody else")


def answers(clock: int, bucket: int, *workers: int) -> list[Action]:
    return [Send(worker, "params", clock, bucket, (P0, P1)[bucket]) for worker in workers]


def applied(total: float, bucket: int, num_members: int = 2) -> list[Action]:
    sums, params = (SUM0, SUM1)[bucket], (P0, P1)[bucket]
    return [*[Note("staleness", 0)] * num_members, Combine(sums, 1 / total), Apply(sums, params)]


def copy_of(worker: int, version: int, bucket: int) -> Received:
    return Received(worker, "copy", version, bucket, Buffer(INBOX, bucket), 1.0, {})


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
