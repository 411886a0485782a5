"""Elastic averaging SGD: facts to commands."""

from typing import Any

import pytest
from support.peers.newcomers import came_again, given, gives, handed, newcomer_of, without

from weft.core.actions import MEAN, Apply, Combine, Compute, Note, Reduce, Send
from weft.core.errors import ConfigError
from weft.core.events import MembersChanged, Reduced, Returned, Started, StepFinished
from weft.core.names import Buffer, Carries, Result, Role, Roles, Slot
from weft.core.world import World
from weft.strategies import EASGD
from weft.testing.peers import (
    G0,
    G1,
    IN0,
    ONE,
    P0,
    P1,
    TWO,
    WITH_STATE,
    bodiless,
    is_plain,
    peer_of,
    received,
    refusal,
    tell,
)

EVERYONE = (0, 1, 2)
SYNC = EASGD(period=1, alpha=0.25)
ASYNC = EASGD(period=1, alpha=0.25, mode="async")
SERVER = 3
C0, C1 = Buffer("centre", 0), Buffer("centre", 1)
M0, M1 = Buffer("easgd.mean", 0), Buffer("easgd.mean", 1)
D0 = Buffer("easgd.delta", 0)


def test_a_worker_begins_with_the_centre_at_its_parameters() -> None:
    assert tell(peer_of(SYNC, buckets=WITH_STATE), Started(0)) == [Combine(C0, 0.0, P0), Compute(0)]
    assert tell(peer_of(ASYNC), Started(0)) == [Compute(0)]
    assert tell(peer_of(ASYNC, SERVER), Started(0)) == []


def test_between_exchanges_a_worker_trains_alone() -> None:
    for mode in ("sync", "async"):
        assert tell(peer_of(EASGD(2, mode=mode)), StepFinished(0, 4.0, None)) == [Apply(G0, P0), Compute(1)]


def test_in_step_all_are_pulled_to_the_centre_and_reduce_what_they_held_before_the_step() -> None:
    peer = peer_of(SYNC, buckets=TWO)
    assert tell(peer, StepFinished(0, 4.0, None)) == [
        Combine(M0, 0.0, P0),
        Combine(P0, 0.75, C0, 0.25),
        Combine(M1, 0.0, P1),
        Combine(P1, 0.75, C1, 0.25),
        Apply(G0, P0),
        Apply(G1, P1),
        Reduce(EVERYONE, "average", 0, M0, MEAN, 1.0),
        Reduce(EVERYONE, "average", 0, M1, MEAN, 1.0),
    ]
    assert peer.waiting_for() == "the average of the parameters after step 0 (2 buckets to go)"


def test_the_centre_goes_to_the_mean_by_the_force_of_all_who_pulled() -> None:
    peer = peer_of(SYNC, buckets=TWO)
    tell(peer, StepFinished(0, 4.0, None))
    assert tell(peer, Reduced(0, M1, 3.0)) == [Combine(C1, 0.25, M1, 0.75)]
    assert tell(peer, Reduced(0, M0, 3.0)) == [Combine(C0, 0.25, M0, 0.75), Compute(1)]


def test_in_step_state_is_averaged_by_samples() -> None:
    peer = peer_of(EASGD(period=2, alpha=0.25), buckets=WITH_STATE)
    tell(peer, StepFinished(0, 4.0, None))
    assert tell(peer, StepFinished(1, 3.0, None))[-2:] == [
        Reduce(EVERYONE, "average", 1, M0, MEAN, 1.0),
        Reduce(EVERYONE, "average", 1, P1, MEAN, 7.0),
    ]
    assert tell(peer, Reduced(1, P1, 21.0)) == []


def test_a_worker_without_samples_is_pulled_and_applies_nothing() -> None:
    assert tell(peer_of(SYNC), StepFinished(0, 0.0, None)) == [
        Combine(M0, 0.0, P0),
        Combine(P0, 0.75, C0, 0.25),
        Reduce(EVERYONE, "average", 0, M0, MEAN, 1.0),
    ]


def test_in_step_a_worker_that_leaves_pulls_no_more() -> None:
    peer = peer_of(SYNC)
    tell(peer, StepFinished(0, 4.0, None))
    assert tell(peer, MembersChanged(1, (0, 2), "lost worker 1")) == [Reduce((0, 2), "average", 0, M0, MEAN, 1.0)]
    assert tell(peer, Reduced(0, M0, 2.0)) == [Combine(C0, 0.5, M0, 0.5), Compute(1)]


def test_an_asynchronous_worker_offers_what_it_held_before_the_step_and_goes_on() -> None:
    peer = peer_of(EASGD(1, mode="async", servers=2), buckets=TWO)
    assert tell(peer, StepFinished(0, 4.0, None)) == [
        Send(3, "offer", 1, 0, P0),
        Send(4, "offer", 1, 1, P1),
        Apply(G0, P0),
        Apply(G1, P1),
        Compute(1),
    ]
    assert peer.waiting_for() == "the user's iteration, with an offer open (2 buckets)"


def test_at_most_one_offer_is_open() -> None:
    peer = peer_of(ASYNC)
    tell(peer, StepFinished(0, 1.0, None))
    assert tell(peer, StepFinished(1, 1.0, None)) == [Apply(G0, P0), Compute(2)]
    assert tell(peer, received(SERVER, "answer", 1)) == [Note("staleness", 1), Combine(P0, 1.0, IN0, -1.0)]
    assert peer.waiting_for() == "the user's iteration"
    assert tell(peer, StepFinished(2, 1.0, None))[0] == Send(SERVER, "offer", 3, 0, P0)


def test_the_server_adds_the_pull_and_answers_it() -> None:
    server = peer_of(ASYNC, SERVER)
    assert server.waiting_for() == "offers"
    assert tell(server, received(2, "offer", 5)) == [
        Combine(D0, 0.0, IN0, 0.25),
        Combine(D0, 1.0, P0, -0.25),
        Combine(P0, 1.0, D0),
        Send(2, "answer", 5, 0, D0),
    ]


def test_a_lost_offer_changes_nothing_and_the_next_may_be_made() -> None:
    peer = peer_of(ASYNC)
    tell(peer, StepFinished(0, 1.0, None))
    assert tell(peer, Returned(SERVER, "offer", 1, 0, IN0, 1.0)) == []
    assert tell(peer, StepFinished(1, 1.0, None))[0] == Send(SERVER, "offer", 2, 0, P0)


def test_a_lost_answer_is_sent_again_as_long_as_its_worker_is_there_and_then_taken_back() -> None:
    server = peer_of(ASYNC, SERVER)
    tell(server, received(1, "offer", 5))
    lost = Returned(1, "answer", 5, 0, IN0, 1.0)
    assert tell(server, lost) == [Send(1, "answer", 5, 0, IN0)]
    assert tell(server, MembersChanged(1, (0, 1, 3), "lost worker 2"), lost) == [Send(1, "answer", 5, 0, IN0)]
    assert tell(server, MembersChanged(2, (0, 3), "finished worker 1"), lost) == [Combine(P0, 1.0, IN0, -1.0)]
    assert tell(server, Returned(1, "answer", 5, 0, None, 1.0)) == []


MOVED = MembersChanged(1, (0, 1, 2, 3), "moved server 0")


def test_a_server_that_was_moved_asks_the_workers_of_its_view_what_they_hold() -> None:
    server = peer_of(ASYNC, SERVER, buckets=TWO)
    assert tell(server, Started(2)) == [Note("centres_lost", 2)]
    assert tell(server, MembersChanged(2, (0, 2, 3), "lost worker 1; moved server 0")) == [
        Send(0, "ask", 0, 0),
        Send(2, "ask", 0, 0),
        Send(0, "ask", 0, 1),
        Send(2, "ask", 0, 1),
    ]
    assert server.waiting_for() == "what worker 0, 2 holds of bucket 0, to find the centre"
    assert is_plain(server)


def test_its_centre_becomes_the_mean_of_the_replicas_and_until_then_offers_are_answered_with_nothing() -> None:
    server = peer_of(ASYNC, SERVER)
    tell(server, Started(1), MOVED)
    assert tell(server, received(2, "replica")) == [Combine(P0, 0.0, IN0, 1.0)]
    assert tell(server, received(0, "offer", 7)) == [Send(0, "answer", 7, 0)]
    assert tell(server, received(0, "replica")) == [Combine(P0, 0.5, IN0, 0.5)]
    assert tell(server, received(1, "replica")) == [Combine(P0, 1.0 - 1.0 / 3.0, IN0, 1.0 / 3.0)]
    assert server.waiting_for() == "offers"
    assert tell(server, received(0, "offer", 8))[-1] == Send(0, "answer", 8, 0, D0)


def test_it_asks_again_in_a_new_view_and_does_not_wait_for_those_who_have_left() -> None:
    server = peer_of(ASYNC, SERVER)
    tell(server, Started(1), MOVED)
    tell(server, received(2, "replica"))
    assert tell(server, MembersChanged(2, (1, 2, 3), "lost worker 0")) == [Send(1, "ask", 0, 0)]
    assert tell(server, Returned(0, "ask", 0, 0, None, 1.0, None, 1)) == []
    assert tell(server, MembersChanged(3, (2, 3), "lost worker 1")) == []
    assert server.waiting_for() == "offers"


def test_a_worker_tells_a_server_that_was_moved_what_it_holds_and_forgets_what_it_offered_before() -> None:
    peer = peer_of(ASYNC, me=1, buckets=TWO)
    tell(peer, StepFinished(0, 1.0, None), MOVED)
    assert tell(peer, bodiless(SERVER, "ask", bucket=1)) == [Send(SERVER, "replica", 0, 1, P1)]
    assert peer.snapshot() == {"step": 1, "offered": {"0": 0}}
    tell(peer, bodiless(SERVER, "ask", bucket=0))
    assert tell(peer, StepFinished(1, 1.0, None))[0] == Send(SERVER, "offer", 2, 0, P0)
    tell(peer, bodiless(SERVER, "ask", bucket=0))
    assert peer.snapshot() == {"step": 2, "offered": {"0": 1, "1": 1}}
    assert is_plain(peer)


def test_an_answer_without_a_pull_closes_the_offer() -> None:
    peer = peer_of(ASYNC)
    tell(peer, StepFinished(0, 1.0, None))
    assert tell(peer, bodiless(SERVER, "answer", 1)) == []
    assert peer.waiting_for() == "the user's iteration"


def test_what_a_worker_told_is_told_again_when_only_its_channel_broke() -> None:
    peer = peer_of(ASYNC)
    assert tell(peer, Returned(SERVER, "replica", 0, 0, IN0, 1.0)) == [Send(SERVER, "replica", 0, 0, IN0)]
    assert tell(peer, MembersChanged(1, EVERYONE, "lost"), Returned(SERVER, "replica", 0, 0, IN0, 1.0)) == []


def test_messages_that_were_not_asked_for_are_refused() -> None:
    expected = "{} received '{}' (clock 0, bucket 0) from {}, which {} does not expect now."
    assert refusal(peer_of(SYNC), received(2, "average")) == (
        expected.format("worker 0", "average", "worker 2", "SyncElasticPeer")
    )
    assert refusal(peer_of(ASYNC), received(SERVER, "offer")) == (
        expected.format("worker 0", "offer", "server 0", "ElasticWorker")
    )
    for kind, event in (("replica", received(0, "replica")), ("offer", bodiless(0, "offer"))):
        assert refusal(peer_of(ASYNC, SERVER), event) == expected.format("server 0", kind, "worker 0", "ElasticServer")
    assert refusal(peer_of(EASGD(mode="async", servers=2), 4, buckets=TWO), received(0, "offer")) == (
        expected.format("server 1", "offer", "worker 0", "ElasticServer")
    )


def test_the_force_is_the_papers_unless_told() -> None:
    assert EASGD().force(3) == 0.9 / 3
    assert EASGD(alpha=0.1).force(3) == 0.1


def test_it_declares_its_memory_its_messages_and_its_servers_and_the_centre_is_the_result() -> None:
    world = World(Roles(3), ONE)
    assert EASGD().slots(Role.WORKER, world) == (Slot("centre"), Slot("easgd.mean"))
    assert ASYNC.slots(Role.WORKER, world) == ()
    assert ASYNC.slots(Role.SERVER, world) == (Slot("easgd.delta"),)
    assert EASGD().kinds() == {"average": Carries.STATE}
    assert ASYNC.kinds() == {
        "offer": Carries.STATE,
        "answer": Carries.EXACT,
        "ask": Carries.NOTHING,
        "replica": Carries.STATE,
    }
    assert (EASGD().roles(3), ASYNC.roles(3)) == (Roles(3, 0), Roles(3, 1))
    assert (EASGD().result, ASYNC.result) == (Result.CENTRE, Result.SERVERS)
    assert (EASGD().keeps_step, ASYNC.keeps_step) == (True, False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "both"}, "mode is 'both', but it is 'sync' or 'async'.\n  Use 'easgd(mode=sync)'."),
        ({"alpha": 0.0}, "alpha is 0.0, but it is above 0 and at most 1 / workers.\n  Leave it out for 0.9 / workers."),
        (
            {"period": 0},
            "period is 0, but workers average after a whole number of steps.\n"
            "  Use 'easgd(period=1)' to average after every step.",
        ),
        (
            {"mode": "async", "servers": 0},
            "servers is 0, but the parameters must live on at least 1.\n  Use 'easgd(servers=1)'.",
        ),
        (
            {"servers": 2},
            "servers is 2, but in step every worker keeps the centre itself.\n"
            "  Use 'easgd(mode=async, servers=2)', or leave servers out.",
        ),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        EASGD(**options)
    assert str(caught.value) == message


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_force_that_overshoots_is_refused_once_the_workers_are_known(mode: str) -> None:
    recipe = EASGD(alpha=0.3, mode=mode)
    recipe.check(3)
    with pytest.raises(ConfigError) as caught:
        recipe.check(4)
    assert str(caught.value) == (
        "alpha is 0.3, but 4 workers together would pull the centre beyond their mean: it is above 0 and at most "
        "0.25 (1 / workers).\n"
        "  Use 'easgd(alpha=0.225)', or leave it out for 0.9 / workers."
    )


def test_asynchronously_a_newcomer_sets_out_from_the_centre_on_the_servers() -> None:
    server = peer_of(ASYNC, SERVER, buckets=TWO)
    tell(server, without(4))
    assert tell(server, came_again(4)) == [gives(0, 0), gives(0, 1)]
    peer = newcomer_of(ASYNC, TWO)
    tell(peer, given(SERVER, 0), handed(0, step=3))
    assert tell(peer, given(SERVER, 0, 1)) == [Combine(P1, 0.0, Buffer("inbox", 1)), Compute(3)]
    assert peer.snapshot() == {"step": 3, "offered": {}}
