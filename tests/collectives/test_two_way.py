"""Coded there and back, as one worker speaks it, which is the server of a part as well: facts to commands."""

from dataclasses import replace

import pytest
from support.simulated.reducers import ReduceOnce

from weft.codecs import OneBit, SignSGD
from weft.collectives.two_way import TwoWay, came
from weft.core.actions import MAX, MEAN, Apply, Combine, Compute, Encode, Reduce, Send, add, copy, rescale
from weft.core.events import GradientReady, Received, StepFinished
from weft.core.names import GRADIENT, INBOX, Buffer, Carries, Part, Role, Roles
from weft.core.world import World
from weft.strategies import AllReduce
from weft.testing.peers import G0, ONE, P0, TWO, WITH_STATE, bodiless, is_plain, members, peer_of, returned, tell

FEEDBACK = TwoWay(AllReduce(), ("gradient",), OneBit())
VOTE = TwoWay(AllReduce(), ("gradient",), SignSGD())
THERE, BACK = "two_way.gradient.there", "two_way.gradient.back"
RESIDUAL, REST = Buffer("two_way.residual", 0), Buffer("two_way.rest", 0)
SUM0 = Buffer("two_way.sum.0", 0)


def part(slot: str, which: int, of: int = 2) -> Buffer:
    return Buffer(slot, 0, Part(which, of))


def encode_there(which: int, of: int = 2, clock: int = 0) -> Encode:
    """The own contribution to a part."""
    return Encode(
        THERE, clock, part("two_way.there", which, of), part(GRADIENT, which, of), part("two_way.residual", which, of)
    )


def encode_back(which: int, of: int = 2, clock: int = 0) -> Encode:
    """The mean of the own part."""
    return Encode(
        BACK, clock, part("two_way.back", which, of), part("two_way.mean", which, of), part("two_way.rest", which, of)
    )


def there(source: int, which: int, of: int = 2, weight: float = 5.0, clock: int = 0) -> Received:
    return Received(source, THERE, clock, 0, part(INBOX, which, of), weight, None)


def back(source: int, which: int, of: int = 2, weight: float = 8.0) -> Received:
    return Received(source, BACK, 0, 0, part(INBOX, which, of), weight, None)


def silent(source: int, kind: str = THERE) -> Received:
    """A message of no weight, without a body."""
    return replace(bodiless(source, kind), weight=0.0)


def told(source: int, ended: str, view: int = 1) -> Received:
    return Received(source, "two_way@ended", view, 0, None, 1.0, {"ended": ended})


def test_each_part_of_a_contribution_is_encoded_and_goes_to_its_server() -> None:
    peer = peer_of(FEEDBACK, num_workers=2)
    assert tell(peer, GradientReady(0, 0, 3.0)) == [
        encode_there(0),
        encode_there(1),
        Send(1, THERE, 0, 0, part("two_way.there", 1), 3.0),
    ]
    assert peer.holds_user
    assert peer.waiting_for() == "worker 1 in the two-way reduction of 'gradient' (step 0, bucket 0)"


def test_when_all_have_spoken_of_the_own_part_its_mean_is_encoded_and_sent_to_all() -> None:
    peer = peer_of(FEEDBACK, num_workers=2)
    tell(peer, GradientReady(0, 0, 3.0))
    assert tell(peer, there(1, 0)) == [
        copy(part(came(1), 0), part(INBOX, 0)),
        Combine(part("two_way.mean", 0), 0.0, part("two_way.there", 0), 3 / 8),
        Combine(part("two_way.mean", 0), 1.0, part(came(1), 0), 5 / 8),
        encode_back(0),
        Combine(part("two_way.sum.0", 0), 0.0, part("two_way.back", 0), 8.0),
        Send(1, BACK, 0, 0, part("two_way.back", 0), 8.0),
    ]
    assert peer.waiting_for() == "worker 1 in the two-way reduction of 'gradient' (step 0, bucket 0)"


def test_when_all_parts_are_back_the_inner_peer_has_its_mean() -> None:
    peer = peer_of(FEEDBACK, num_workers=2)
    tell(peer, GradientReady(0, 0, 3.0), there(1, 0))
    assert tell(peer, back(1, 1)) == [
        Combine(part("two_way.sum.0", 1), 0.0, part(INBOX, 1), 8.0),
        Combine(G0, 0.0, SUM0, 1 / 8),
    ]
    assert not peer.holds_user
    assert tell(peer, StepFinished(0, 3.0, None)) == [Apply(G0, P0), Compute(1)]


def test_the_parts_of_others_may_be_back_before_all_have_spoken_of_the_own() -> None:
    peer = peer_of(FEEDBACK)
    tell(peer, GradientReady(0, 0, 3.0), there(1, 0, 3))
    assert tell(peer, back(1, 1, 3, 13.0)) == [Combine(part("two_way.sum.0", 1, 3), 0.0, part(INBOX, 1, 3), 13.0)]
    tell(peer, back(2, 2, 3, 13.0))
    assert peer.holds_user
    assert tell(peer, there(2, 0, 3))[-1] == Combine(G0, 0.0, SUM0, 1 / 13)


def test_who_speaks_before_the_own_contribution_is_there_is_remembered() -> None:
    peer = peer_of(FEEDBACK, num_workers=2)
    assert tell(peer, there(1, 0)) == [copy(part(came(1), 0), part(INBOX, 0))]
    assert Send(1, BACK, 0, 0, part("two_way.back", 0), 8.0) in tell(peer, GradientReady(0, 0, 3.0))


def test_signs_are_voted_on_and_nothing_is_kept() -> None:
    peer = peer_of(VOTE, num_workers=2)
    encodes = [action for action in tell(peer, GradientReady(0, 0, 1.0)) if isinstance(action, Encode)]
    encodes += [action for action in tell(peer, there(1, 0, weight=1.0)) if isinstance(action, Encode)]
    assert [(action.kind, action.residual) for action in encodes] == [(THERE, None), (THERE, None), (BACK, None)]


def test_who_has_no_samples_says_so_without_a_body_and_encodes_nothing() -> None:
    peer = peer_of(FEEDBACK, num_workers=2)
    assert tell(peer, GradientReady(0, 0, 0.0)) == [Send(1, THERE, 0, 0, None, 0.0)]
    assert tell(peer, there(1, 0)) == [
        copy(part(came(1), 0), part(INBOX, 0)),
        Combine(part("two_way.mean", 0), 0.0, part(came(1), 0), 1.0),
        encode_back(0),
        Combine(part("two_way.sum.0", 0), 0.0, part("two_way.back", 0), 5.0),
        Send(1, BACK, 0, 0, part("two_way.back", 0), 5.0),
    ]


def test_if_nobody_has_samples_nothing_is_encoded_and_nothing_applied() -> None:
    peer = peer_of(FEEDBACK, num_workers=2)
    tell(peer, GradientReady(0, 0, 0.0))
    assert tell(peer, silent(1)) == [Send(1, BACK, 0, 0, None, 0.0)]
    assert tell(peer, silent(1, BACK)) == []
    assert not peer.holds_user
    assert tell(peer, StepFinished(0, 0.0, None)) == [Compute(1)]


def test_after_a_change_what_was_said_goes_back_and_is_said_anew_in_other_parts() -> None:
    peer = peer_of(FEEDBACK)
    tell(peer, GradientReady(0, 0, 3.0), members(0, 1))
    answer = tell(peer, told(1, "0"))
    taken_back = [add(part("two_way.residual", i, 3), part("two_way.there", i, 3)) for i in range(3)]
    assert answer == [
        *taken_back,
        add(RESIDUAL, G0, -1.0),
        add(RESIDUAL, REST, 2.0),
        rescale(REST, 0.0),
        encode_there(0),
        encode_there(1),
        Send(1, THERE, 0, 0, part("two_way.there", 1), 3.0),
    ]


def test_a_mean_that_was_encoded_for_nothing_goes_back_to_the_rest_of_its_part() -> None:
    peer = peer_of(FEEDBACK)
    tell(peer, GradientReady(0, 0, 3.0), there(1, 0, 3), there(2, 0, 3), members(0, 1))
    mine = part("two_way.rest", 0, 3)
    assert tell(peer, told(1, "0"))[:2] == [
        add(mine, part("two_way.back", 0, 3)),
        add(mine, part("two_way.mean", 0, 3), -1.0),
    ]


def test_without_feedback_there_is_nothing_to_take_back() -> None:
    peer = peer_of(VOTE)
    tell(peer, GradientReady(0, 0, 3.0), members(0, 1))
    first, second, sent = tell(peer, told(1, "0"))
    assert (first.into, second.into) == (part("two_way.there", 0), part("two_way.there", 1))
    assert sent == Send(1, THERE, 0, 0, part("two_way.there", 1), 3.0)


def test_what_others_have_ended_has_counted_and_is_not_taken_back() -> None:
    peer = peer_of(FEEDBACK)
    tell(peer, GradientReady(0, 0, 3.0), members(0, 1), told(1, "1"))
    handed = Received(1, "two_way@handed", 0, 0, Buffer(INBOX, 0), 9.0, {"kind": "gradient"})
    assert tell(peer, handed) == [copy(SUM0, Buffer(INBOX, 0)), Combine(G0, 0.0, SUM0, 1 / 9)]
    tell(peer, StepFinished(0, 3.0, None))
    assert tell(peer, GradientReady(1, 0, 3.0)) == [
        add(RESIDUAL, REST, 2.0),
        rescale(REST, 0.0),
        encode_there(0, clock=1),
        encode_there(1, clock=1),
        Send(1, THERE, 1, 0, part("two_way.there", 1), 3.0),
    ]


def test_a_worker_of_no_weight_that_begins_again_has_nothing_to_take_back() -> None:
    peer = peer_of(FEEDBACK)
    tell(peer, GradientReady(0, 0, 0.0), members(0, 1))
    assert tell(peer, told(1, "0")) == [
        add(RESIDUAL, REST, 2.0),
        rescale(REST, 0.0),
        Send(1, THERE, 0, 0, None, 0.0),
    ]


@pytest.mark.parametrize(("view", "again"), [(0, 1), (1, 0)])
def test_what_a_broken_channel_returns_is_sent_again_and_what_a_change_overtook_is_not(view: int, again: int) -> None:
    peer = peer_of(FEEDBACK)
    tell(peer, GradientReady(0, 0, 3.0), *([members(0, 1)] if view else []))
    assert tell(peer, returned(1, THERE, weight=3.0)) == [Send(1, THERE, 0, 0, Buffer(INBOX, 0), 3.0)] * again


def test_other_kinds_and_a_maximum_stay_actions() -> None:
    other = peer_of(FEEDBACK, num_workers=2, buckets=WITH_STATE)
    assert tell(other, GradientReady(0, 0, 1.0))[-1] == Reduce((0, 1), "state", 0, Buffer("params", 1), MEAN, 1.0)
    most = peer_of(TwoWay(ReduceOnce(MAX), ("all",), OneBit()), num_workers=2)
    assert tell(most, StepFinished(0, 3.0, None)) == [Reduce((0, 1), "all", 0, P0, MAX, 3.0)]


def test_alone_it_encodes_twice_and_ends_at_once() -> None:
    peer = peer_of(FEEDBACK, num_workers=1)
    answer = tell(peer, GradientReady(0, 0, 3.0))
    assert [action.kind for action in answer if isinstance(action, Encode)] == [THERE, BACK]
    assert answer[-1] == Combine(G0, 0.0, Buffer("two_way.sum.0", 0), 1 / 3), "what was said, not what was meant"
    assert not peer.holds_user


def test_it_declares_its_memory_both_legs_and_their_codec() -> None:
    names = [slot.name for slot in FEEDBACK.slots(Role.WORKER, World(Roles(2), ONE))]
    assert names == [
        *("two_way.sum.0", "two_way.sum.1", "two_way.there", "two_way.back", "two_way.mean"),
        *("two_way.residual", "two_way.rest", "two_way.from.0", "two_way.from.1"),
    ]
    assert FEEDBACK.codecs() == {THERE: OneBit(), BACK: OneBit()}
    assert FEEDBACK.kinds() == {
        **AllReduce().kinds(),
        THERE: Carries.DELTA,
        BACK: Carries.DELTA,
        "two_way@ended": Carries.NOTHING,
        "two_way@handed": Carries.EXACT,
    }
    assert FEEDBACK.slots(Role.SERVER, World(Roles(2, 1), ONE)) == ()


def test_the_snapshot_is_plain() -> None:
    peer = peer_of(FEEDBACK, num_workers=2, buckets=TWO)
    tell(peer, GradientReady(0, 0, 3.0), there(1, 0))
    assert is_plain(peer)
    snapshot = peer.snapshot()["two_way"]
    assert snapshot["runs"] == {"('gradient', 0, 0)": {"weights": {"0": 3.0, "1": 5.0}, "total": 8.0, "back": [0]}}
    assert (snapshot["encoded"], snapshot["groups"]) == ({"0": 2}, {"0": [0, 1]})
