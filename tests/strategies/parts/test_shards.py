"""What strategies with parameter servers share, told by the asynchronous server, which adds the least."""

from typing import Any

import pytest
from support.peers.newcomers import came_again, given, gives, handed, newcomer_of, without

from weft.core.actions import Action, Apply, Combine, Note, Send
from weft.core.errors import ConfigError
from weft.core.events import MembersChanged, Received, Returned, Started, StepFinished
from weft.core.names import INBOX, Buffer
from weft.strategies import AsyncSGD
from weft.strategies.parts.shards import check_servers
from weft.testing.peers import G0, IN0, IN1, P0, P1, TWO, bodiless, is_plain, peer_of, received, refusal, tell

SERVER = 3


def changed(view: int = 1, *members: int) -> MembersChanged:
    return MembersChanged(view, members or (0, 1, 2, SERVER), "somebody else")


def push_back(bucket: int, view: int) -> Returned:
    return Returned(SERVER, "push", 0, bucket, Buffer(INBOX, bucket), 1.0, None, view)


def copy_of(worker: int, version: int, bucket: int = 0, pushed: int = 0, unanswered: bool = False) -> Received:
    data = {"pushed": pushed, "unanswered": unanswered}
    return Received(worker, "copy", version, bucket, Buffer(INBOX, bucket), 1.0, data)


def copied(version: int, pushed: int, unanswered: bool = False, bucket: int = 0) -> Action:
    data = {"pushed": pushed, "unanswered": unanswered}
    return Send(SERVER, "copy", version, bucket, Buffer("params", bucket), data=data)


def moved_server(*members: int, buckets: Any = TWO[:1]) -> Any:
    """A server that was started anew in view 2 and has asked for copies."""
    server = peer_of(AsyncSGD(), SERVER, buckets=buckets)
    tell(server, Started(2), changed(2, *members))
    return server


def test_a_number_of_servers_that_cannot_hold_the_parameters_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        check_servers("ps", 0)
    assert str(caught.value) == "servers is 0, but the parameters must live on at least 1.\n  Use 'ps(servers=1)'."


def test_one_server_is_enough() -> None:
    assert check_servers("ps", 1) is None


def test_a_worker_pushes_again_what_is_unanswered_when_members_change() -> None:
    peer = peer_of(AsyncSGD(), buckets=TWO)
    assert tell(peer, changed(1)) == []
    tell(peer, StepFinished(0, 2.0, None), received(SERVER, "params", 1, bucket=1))
    assert tell(peer, changed(2)) == [Send(SERVER, "push", 0, 0, G0, 2.0)]
    assert tell(peer, received(SERVER, "params", 4))[0] == Combine(P0, 0.0, IN0)
    assert tell(peer, changed(3)) == []


def test_a_push_on_a_channel_that_broke_is_sent_again() -> None:
    peer = peer_of(AsyncSGD())
    tell(peer, StepFinished(0, 2.0, None))
    assert tell(peer, push_back(0, view=0)) == [Send(SERVER, "push", 0, 0, IN0)]
    tell(peer, changed(1))
    assert tell(peer, push_back(0, view=0)) == []


def test_a_worker_tells_a_moved_server_its_copy_and_how_much_it_has_pushed() -> None:
    peer = peer_of(AsyncSGD())
    tell(peer, StepFinished(0, 2.0, None), received(SERVER, "params", 7), changed(1))
    assert tell(peer, bodiless(SERVER, "ask")) == [copied(7, pushed=1)]


def test_a_push_that_the_lost_server_may_have_taken_is_said_to_be_unanswered() -> None:
    peer = peer_of(AsyncSGD(), buckets=TWO)
    tell(peer, StepFinished(0, 2.0, None), changed(1), push_back(1, view=0))
    assert tell(peer, bodiless(SERVER, "ask")) == [copied(0, 1, unanswered=True), copied(0, 0, bucket=1)]


def test_a_push_that_a_moved_server_put_aside_was_not_taken() -> None:
    peer = peer_of(AsyncSGD())
    tell(peer, StepFinished(0, 2.0, None), changed(1), push_back(0, view=0), bodiless(SERVER, "ask"))
    tell(peer, changed(2))
    assert tell(peer, bodiless(SERVER, "ask")) == [copied(0, pushed=0)]
    assert tell(peer, bodiless(SERVER, "again")) == [Send(SERVER, "push", 0, 0, G0, 2.0)]
    tell(peer, changed(3))
    assert tell(peer, bodiless(SERVER, "ask")) == [copied(0, pushed=1, unanswered=True)]


def test_a_push_that_was_put_aside_is_pushed_again_and_may_then_be_taken() -> None:
    peer = peer_of(AsyncSGD())
    tell(peer, StepFinished(0, 2.0, None), changed(1), push_back(0, view=0), bodiless(SERVER, "ask"))
    tell(peer, changed(2), changed(3))
    assert tell(peer, bodiless(SERVER, "ask")) == [copied(0, pushed=1, unanswered=True)]


def test_a_server_answers_a_repeated_push_without_applying_it() -> None:
    server = peer_of(AsyncSGD(), SERVER)
    tell(server, received(0, "push", 0), changed(1))
    assert tell(server, received(0, "push", 0)) == [Send(0, "params", 1, 0, P0)]


def test_a_server_that_was_not_moved_asks_nobody() -> None:
    server = peer_of(AsyncSGD(), SERVER)
    assert tell(server, Started(0)) == []
    assert tell(server, changed(1)) == []


def test_a_moved_server_asks_all_workers_that_are_left() -> None:
    server = peer_of(AsyncSGD(), SERVER, buckets=TWO)
    assert tell(server, Started(2)) == []
    assert tell(server, changed(2, 0, 2, SERVER)) == [Send(0, "ask", 0, 0), Send(2, "ask", 0, 0)]
    assert server.waiting_for() == "the copies of workers 0, 2: it was moved and has no parameters"


def test_a_moved_server_takes_the_newest_copy_of_each_bucket() -> None:
    server = moved_server(0, 1, SERVER, buckets=TWO)
    assert tell(server, copy_of(0, 5)) == [Combine(P0, 0.0, IN0)]
    assert tell(server, copy_of(0, 5, bucket=1)) == [Combine(P1, 0.0, IN1)]
    assert tell(server, copy_of(1, 4)) == []
    assert tell(server, copy_of(1, 6, bucket=1)) == [Combine(P1, 0.0, IN1)]
    assert server.versions == {0: 5, 1: 6}
    assert server.waiting_for() == "pushes"


def test_pushes_before_the_copies_are_put_aside_and_asked_for_again() -> None:
    server = moved_server(0, 1, SERVER)
    assert tell(server, received(1, "push", 4)) == []
    tell(server, copy_of(0, 5, pushed=4))
    assert tell(server, copy_of(1, 5, pushed=4)) == [Send(1, "again", 0, 0)]
    assert tell(server, received(1, "push", 4))[1:] == [Apply(IN0, P0, scale=0.5), Send(1, "params", 6, 0, P0)]


def test_what_the_lost_server_may_have_applied_is_not_applied_again_and_noted() -> None:
    server = moved_server(0, 1, SERVER)
    tell(server, received(1, "push", 4), copy_of(0, 5, pushed=4))
    assert tell(server, copy_of(1, 5, pushed=5, unanswered=True)) == [
        Note("lost_updates", 1),
        Send(1, "again", 0, 0),
    ]
    assert tell(server, received(1, "push", 4)) == [Send(1, "params", 5, 0, P0)]


def test_a_recovery_that_members_interrupt_begins_again() -> None:
    server = moved_server()
    tell(server, received(1, "push", 4), copy_of(0, 5, pushed=4, unanswered=True))
    assert tell(server, changed(3, 1, 2, SERVER)) == [Send(1, "ask", 0, 0), Send(2, "ask", 0, 0)]
    assert tell(server, copy_of(1, 4, pushed=4)) == []
    assert tell(server, copy_of(2, 4, pushed=4)) == []
    assert server.versions == {0: 5}


def test_a_server_without_buckets_has_nothing_to_recover() -> None:
    server = peer_of(AsyncSGD(servers=2), 4)
    assert tell(server, Started(2), changed(2)) == []
    assert server.waiting_for() == "pushes"


def test_nobody_sends_copies_or_asks_again_without_a_reason() -> None:
    expected = "{} received '{}' (clock {}, bucket 0) from {}, which {} does not expect now."
    server, worker = peer_of(AsyncSGD(), SERVER), peer_of(AsyncSGD())
    assert refusal(server, copy_of(1, 5)) == expected.format("server 0", "copy", 5, "worker 1", "StaleSyncServer")
    assert refusal(server, bodiless(1, "ask")) == expected.format("server 0", "ask", 0, "worker 1", "StaleSyncServer")
    again = bodiless(SERVER, "again")
    assert refusal(worker, again) == expected.format("worker 0", "again", 0, "server 0", "ShardWorker")


def test_snapshots_are_plain_while_a_server_recovers() -> None:
    server = moved_server()
    tell(server, received(1, "push", 4), copy_of(0, 5))
    assert server.snapshot()["unheard"] == [[1, 0], [2, 0]]
    assert server.snapshot()["aside"] == [[1, 0]]
    assert is_plain(server)


def test_a_server_gives_newcomers_its_buckets_and_their_versions() -> None:
    server = peer_of(AsyncSGD(servers=2), SERVER, buckets=(*TWO, *TWO))
    tell(server, received(0, "push", 0), received(0, "push", 0, bucket=2), received(0, "push", 1, bucket=2))
    assert tell(server, without(5), came_again(5)) == [gives(1, 0), gives(2, 2)]
    assert tell(peer_of(AsyncSGD(servers=2), 4), without(5), came_again(5)) == [], "it has none"


def test_a_newcomer_remembers_the_versions_that_it_was_given_and_tells_them_to_a_moved_server() -> None:
    peer = newcomer_of(AsyncSGD(), TWO)
    assert tell(peer, given(SERVER, 6), given(SERVER, 8, 1)) == [Combine(P1, 0.0, IN1)]
    tell(peer, handed(0, step=4), changed(6))
    assert tell(peer, bodiless(SERVER, "ask")) == [copied(6, 4), copied(8, 4, bucket=1)]
    tell(peer, StepFinished(4, 2.0, None))
    assert refusal(peer, received(SERVER, "params", 5)).startswith("worker 1 received 'params' (clock 5")
