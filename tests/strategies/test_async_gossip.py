"""Asynchronous decentralized SGD: facts to commands."""

import pytest
from support.peers.newcomers import given, handed, joined, newcomer

from weft.core.actions import Apply, Combine, Compute, Note, Send
from weft.core.errors import ConfigError
from weft.core.events import Returned, Started, StepFinished
from weft.core.names import Buffer, Carries, Result, Role, Slot
from weft.core.world import World
from weft.strategies import AsyncGossip
from weft.testing.peers import (
    G0,
    G1,
    IN0,
    IN1,
    ONE,
    P0,
    P1,
    TWO,
    bodiless,
    is_plain,
    members,
    peer_of,
    received,
    refusal,
    returned,
    tell,
)
from weft.topologies import Complete, Ring

PAIR = AsyncGossip(Ring())
D0 = Buffer("async_gossip.delta", 0)


def test_a_worker_computes_at_once() -> None:
    assert tell(peer_of(PAIR), Started(0)) == [Compute(0)]


def test_a_step_offers_the_parameters_to_one_neighbour_and_goes_on() -> None:
    peer = peer_of(PAIR, num_workers=2, buckets=TWO)
    assert tell(peer, StepFinished(0, 1.0, None)) == [
        Apply(G0, P0),
        Apply(G1, P1),
        Send(1, "offer", 1, 0, P0),
        Send(1, "offer", 1, 1, P1),
        Compute(1),
    ]


def test_with_a_period_only_every_so_manieth_step_is_followed_by_an_offer() -> None:
    peer = peer_of(AsyncGossip(Ring(), period=3), num_workers=2)
    sent = []
    for step in range(7):
        actions = tell(peer, StepFinished(step, 1.0, None))
        if any(isinstance(action, Send) for action in actions):
            sent.append(step + 1)
            tell(peer, received(1, "answer", step + 1))
    assert sent == [3, 6]


def test_a_period_of_no_steps_is_refused() -> None:
    with pytest.raises(ConfigError, match="period is 0"):
        AsyncGossip(period=0)


def test_partners_are_drawn_among_the_neighbours() -> None:
    peer = peer_of(PAIR, me=2, num_workers=5)
    partners = set()
    for step in range(20):
        offer = tell(peer, StepFinished(step, 1.0, None))[1]
        assert isinstance(offer, Send)
        partners.add(offer.to)
        tell(peer, received(offer.to, "answer", offer.clock))
    assert partners == {1, 3}


def test_at_most_one_own_offer_is_open() -> None:
    peer = peer_of(PAIR, num_workers=2)
    tell(peer, StepFinished(0, 1.0, None))
    assert peer.waiting_for() == "the user's iteration, with an offer open (1 buckets)"
    assert tell(peer, StepFinished(1, 1.0, None)) == [Apply(G0, P0), Compute(2)]
    tell(peer, received(1, "answer", 1))
    assert peer.waiting_for() == "the user's iteration"
    assert tell(peer, StepFinished(2, 1.0, None)) == [Apply(G0, P0), Send(1, "offer", 3, 0, P0), Compute(3)]


def test_the_passive_side_adds_half_the_difference_and_answers_it() -> None:
    peer = peer_of(PAIR, me=1, num_workers=2)
    tell(peer, StepFinished(0, 1.0, None), StepFinished(1, 1.0, None))
    assert tell(peer, received(0, "offer", 5)) == [
        Note("staleness", 3),
        Combine(D0, 0.0, IN0, 0.5),
        Combine(D0, 1.0, P0, -0.5),
        Combine(P0, 1.0, D0),
        Send(0, "answer", 5, 0, D0),
    ]


def test_the_active_side_subtracts_the_answer_from_whatever_it_holds_by_then() -> None:
    peer = peer_of(PAIR, num_workers=2, buckets=TWO)
    tell(peer, StepFinished(0, 1.0, None), StepFinished(1, 1.0, None))
    assert tell(peer, received(1, "answer", 1, bucket=1)) == [Combine(P1, 1.0, IN1, -1.0)]
    assert peer.waiting_for() == "the user's iteration, with an offer open (1 buckets)"


def test_a_lost_offer_changes_nothing_and_the_next_may_be_made() -> None:
    peer = peer_of(PAIR, num_workers=2)
    tell(peer, StepFinished(0, 1.0, None))
    assert tell(peer, returned(1, "offer", 1)) == []
    assert Send(1, "offer", 2, 0, P0) in tell(peer, StepFinished(1, 1.0, None))


def test_an_answer_whose_channel_broke_is_sent_again() -> None:
    peer = peer_of(PAIR, me=1, num_workers=2)
    tell(peer, received(0, "offer", 1))
    assert tell(peer, returned(0, "answer", 1)) == [Send(0, "answer", 1, 0, IN0)]


def test_an_answer_that_a_change_of_members_overtook_is_taken_back() -> None:
    peer = peer_of(PAIR, me=1, num_workers=3)
    tell(peer, received(0, "offer", 1), members(0, 1))
    assert tell(peer, returned(0, "answer", 1)) == [Combine(P0, 1.0, IN0, -1.0)]


@pytest.mark.parametrize("gone", [1, 2])
def test_a_change_of_members_ends_an_open_offer(gone: int) -> None:
    """Either the partner has left, or it was not asked, or its answer went back to it."""
    peer = peer_of(AsyncGossip(Complete()), num_workers=3, buckets=TWO)
    partner = tell(peer, StepFinished(0, 1.0, None))[2].to
    assert tell(peer, members(0, 3 - gone)) == []
    assert tell(peer, returned(partner, "offer", 1)) == []
    assert peer.unanswered == 0
    assert Send(3 - gone, "offer", 2, 0, P0) in tell(peer, StepFinished(1, 1.0, None))


def test_partners_are_drawn_among_those_who_are_left() -> None:
    peer = peer_of(PAIR, me=2, num_workers=5)
    tell(peer, members(0, 2, 3, 4), members(0, 2, 4, view=2))
    partners = set()
    for step in range(20):
        offer = tell(peer, StepFinished(step, 1.0, None))[1]
        partners.add(offer.to)
        tell(peer, received(offer.to, "answer", offer.clock))
    assert partners == {0, 4}


def test_the_last_worker_goes_on_alone() -> None:
    peer = peer_of(PAIR, num_workers=2)
    tell(peer, StepFinished(0, 1.0, None), members(0))
    assert tell(peer, StepFinished(1, 1.0, None)) == [Apply(G0, P0), Compute(2)]


def test_one_worker_alone_has_nobody_to_offer_to() -> None:
    assert tell(peer_of(AsyncGossip(), num_workers=1), StepFinished(0, 1.0, None)) == [Apply(G0, P0), Compute(1)]


def test_answers_that_were_not_asked_for_are_refused() -> None:
    expected = "worker 0 received '{}' (clock 0, bucket 0) from worker 1, which AsyncGossipPeer does not expect now."
    peer = peer_of(PAIR)
    assert refusal(peer, received(1, "answer")) == expected.format("answer")
    assert refusal(peer, received(1, "mix")) == expected.format("mix")
    assert refusal(peer, bodiless(1, "offer")) == expected.format("offer")


def test_the_snapshot_is_plain() -> None:
    peer = peer_of(PAIR)
    tell(peer, StepFinished(0, 1.0, None))
    assert peer.snapshot() == {"step": 1, "unanswered": 1}
    assert is_plain(peer)


def test_it_declares_memory_for_the_difference() -> None:
    world = World(PAIR.roles(3), ONE, PAIR.graph(3))
    assert PAIR.slots(Role.WORKER, world) == (Slot("async_gossip.delta"),)
    assert PAIR.kinds() == {"offer": Carries.STATE, "answer": Carries.EXACT}
    assert PAIR.result is Result.MEAN


def test_a_newcomer_is_given_parameters_and_is_a_neighbour_from_then_on() -> None:
    peer = peer_of(PAIR, num_workers=2)
    tell(peer, members(0))
    params = Send(1, "welcome", 0, 0, P0, data={"slot": "params"})
    assert tell(peer, joined(0, 1)) == [params, Send(1, "welcome", 0, 0, data={"step": 0})]
    assert tell(peer, StepFinished(0, 1.0, None)) == [Apply(G0, P0), Send(1, "offer", 1, 0, P0), Compute(1)]


def test_a_newcomer_goes_on_where_its_sponsor_is_and_offers_to_those_who_live() -> None:
    peer = newcomer(PAIR, 1, 1, 3)
    assert tell(peer, given(3, 7), handed(3, step=7)) == [Compute(7)]
    assert tell(peer, StepFinished(7, 1.0, None)) == [Apply(G0, P0), Send(3, "offer", 8, 0, P0), Compute(8)]


def test_a_welcome_that_a_change_of_members_overtook_changes_nothing() -> None:
    peer = peer_of(PAIR, num_workers=2)
    tell(peer, members(0), joined(0, 1), members(0, view=3))
    assert tell(peer, Returned(1, "welcome", 0, 0, IN0, 1.0, {"slot": "params"}, 2)) == []
    assert tell(peer, Returned(1, "welcome", 0, 0, None, 1.0, {"step": 0}, 2)) == []
