"""Gathering instead of reducing, as one worker speaks it: facts to commands."""

from dataclasses import replace

import pytest
from support.simulated.reducers import ReduceOnce

from weft.collectives.gathered import Gathered, came
from weft.collectives.recovery import kinds_of
from weft.core.actions import MAX, MEAN, Apply, Combine, Compute, Reduce, Send
from weft.core.errors import UnexpectedMessage
from weft.core.events import GradientReady, MembersChanged, Received, Started, StepFinished
from weft.core.names import Buffer, Carries, Part, Role, Roles, Slot
from weft.core.world import World
from weft.strategies import AllReduce, StaleSync
from weft.testing.peers import G0, IN0, ONE, P0, TWO, WITH_STATE, bodiless, is_plain, peer_of, received, returned, tell

GATHERED = Gathered(AllReduce(), ("gradient",))
TOLD, HANDED = kinds_of("gather")
SUM0, SUM1 = (Buffer(f"gather.sum.{i}", 0) for i in range(2))
WITHOUT_TWO = MembersChanged(1, (0, 1), "lost worker 2")


def came0(worker: int, turn: int = 1) -> Buffer:
    return Buffer(came(worker, turn), 0)


def news(source: int, clock: int = 0, weight: float = 1.0) -> Received:
    return received(source, "gather.gradient", clock, weight=weight)


def told(source: int, ended: str) -> Received:
    return Received(source, TOLD, 1, 0, None, 1.0, {"ended": ended})


def test_a_contribution_goes_as_it_is_to_all_others() -> None:
    peer = peer_of(GATHERED)
    assert tell(peer, Started(0)) == [Compute(0)]
    assert tell(peer, GradientReady(0, 0, 3.0)) == [
        Send(1, "gather.gradient", 0, 0, G0, 3.0),
        Send(2, "gather.gradient", 0, 0, G0, 3.0),
    ]
    assert peer.holds_user
    assert peer.waiting_for() == "worker 1, worker 2 in the gathering of 'gradient' (step 0, bucket 0)"


def test_when_the_last_is_there_all_are_added_in_the_order_of_their_workers() -> None:
    peer = peer_of(GATHERED, me=1)
    tell(peer, GradientReady(0, 0, 3.0))
    assert tell(peer, news(2, weight=1.0)) == [Combine(came0(2), 0.0, IN0)]
    assert peer.waiting_for() == "worker 0 in the gathering of 'gradient' (step 0, bucket 0)"
    assert tell(peer, news(0, weight=4.0)) == [
        Combine(came0(0), 0.0, IN0),
        Combine(SUM0, 0.0, came0(0), 4.0),
        Combine(SUM0, 1.0, G0, 3.0),
        Combine(SUM0, 1.0, came0(2), 1.0),
        Combine(G0, 0.0, SUM0, 1 / 8),
    ]
    assert not peer.holds_user
    assert tell(peer, StepFinished(0, 3.0, None)) == [Apply(G0, P0), Compute(1)]


def test_contributions_of_the_next_reduction_wait_in_memory_of_their_own() -> None:
    peer = peer_of(GATHERED, num_workers=2)
    assert tell(peer, news(1)) == [Combine(came0(1, 1), 0.0, IN0)]
    tell(peer, GradientReady(0, 0, 1.0))
    assert tell(peer, news(1, clock=1)) == [Combine(came0(1, 0), 0.0, IN0)]
    tell(peer, StepFinished(0, 1.0, None))
    assert tell(peer, GradientReady(1, 0, 1.0))[1:] == [
        Combine(SUM1, 0.0, G0, 1.0),
        Combine(SUM1, 1.0, came0(1, 0), 1.0),
        Combine(G0, 0.0, SUM1, 0.5),
    ]


def test_who_has_no_samples_sends_no_body_and_is_not_added() -> None:
    peer = peer_of(GATHERED)
    assert tell(peer, GradientReady(0, 0, 0.0)) == [
        Send(1, "gather.gradient", 0, 0, None, 0.0),
        Send(2, "gather.gradient", 0, 0, None, 0.0),
    ]
    empty = replace(bodiless(1, "gather.gradient"), weight=0.0)
    assert tell(peer, empty) == []
    assert tell(peer, news(2, weight=2.0)) == [
        Combine(came0(2), 0.0, IN0),
        Combine(SUM0, 0.0, came0(2), 2.0),
        Combine(G0, 0.0, SUM0, 0.5),
    ]


def test_if_nobody_has_samples_the_own_values_stay_and_nothing_is_applied() -> None:
    peer = peer_of(GATHERED, num_workers=2)
    tell(peer, GradientReady(0, 0, 0.0))
    empty = replace(bodiless(1, "gather.gradient"), weight=0.0)
    assert tell(peer, empty) == [Combine(SUM0, 0.0)]
    assert tell(peer, StepFinished(0, 0.0, None)) == [Compute(1)]


def test_a_maximum_and_other_kinds_stay_actions() -> None:
    other = peer_of(GATHERED, num_workers=2, buckets=WITH_STATE)
    assert tell(other, GradientReady(0, 0, 1.0))[-1] == Reduce((0, 1), "state", 0, Buffer("params", 1), MEAN, 1.0)
    most = peer_of(Gathered(ReduceOnce(MAX), ("all",)), num_workers=2)
    assert tell(most, StepFinished(0, 3.0, None)) == [Reduce((0, 1), "all", 0, P0, MAX, 3.0)]


def test_after_a_change_of_members_it_begins_again_with_the_same_contribution_and_fresh_memory() -> None:
    peer = peer_of(GATHERED)
    tell(peer, GradientReady(0, 0, 3.0), news(1))
    assert tell(peer, WITHOUT_TWO) == [Send(1, TOLD, 1, 0, data={"ended": "0"})]
    assert peer.waiting_for() == "worker 1 to say which gather reductions it has ended"
    assert tell(peer, told(1, "0")) == [Send(1, "gather.gradient", 0, 0, G0, 3.0)]
    assert tell(peer, news(1, weight=5.0)) == [
        Combine(came0(1), 0.0, IN0),
        Combine(SUM0, 0.0, G0, 3.0),
        Combine(SUM0, 1.0, came0(1), 5.0),
        Combine(G0, 0.0, SUM0, 1 / 8),
    ]


def test_what_another_has_ended_is_handed_on() -> None:
    behind, ahead = peer_of(GATHERED), peer_of(GATHERED, me=1)
    tell(behind, GradientReady(0, 0, 3.0), WITHOUT_TWO)
    assert tell(behind, told(1, "1")) == []
    handed = Received(1, HANDED, 0, 0, IN0, 9.0, {"kind": "gradient"})
    assert tell(behind, handed) == [Combine(SUM0, 0.0, IN0), Combine(G0, 0.0, SUM0, 1 / 9)]
    tell(ahead, GradientReady(0, 0, 3.0), news(0), news(2), WITHOUT_TWO)
    assert tell(ahead, told(0, "0")) == [Send(0, HANDED, 0, 0, SUM0, 5.0, {"kind": "gradient"})]


def test_what_a_broken_channel_returns_is_sent_again() -> None:
    peer = peer_of(GATHERED)
    tell(peer, GradientReady(0, 0, 3.0))
    assert tell(peer, returned(1, "gather.gradient", weight=3.0)) == [Send(1, "gather.gradient", 0, 0, IN0, 3.0)]
    tell(peer, WITHOUT_TWO)
    assert tell(peer, returned(1, "gather.gradient", weight=3.0)) == []


def test_alone_it_sends_nothing_and_changes_nothing() -> None:
    peer = peer_of(GATHERED, num_workers=1)
    assert tell(peer, GradientReady(0, 0, 3.0)) == [Combine(SUM0, 0.0, G0, 3.0)]
    assert not peer.holds_user


def test_it_declares_two_sums_two_places_for_each_worker_and_its_messages() -> None:
    world = World(Roles(2), ONE)
    names = ["gather.sum.0", "gather.sum.1", *(f"gather.from.{worker}.{turn}" for worker in (0, 1) for turn in (0, 1))]
    assert GATHERED.slots(Role.WORKER, world) == tuple(map(Slot, names))
    assert GATHERED.kinds() == {
        **AllReduce().kinds(),
        "gather.gradient": Carries.DELTA,
        TOLD: Carries.NOTHING,
        HANDED: Carries.EXACT,
    }
    served = Gathered(StaleSync(), ("push",))
    assert served.slots(Role.SERVER, World(Roles(2, 1), ONE)) == StaleSync().slots(Role.SERVER, world)


def test_buckets_are_gathered_side_by_side_and_the_snapshot_is_plain() -> None:
    peer = peer_of(GATHERED, num_workers=2, buckets=TWO)
    tell(peer, GradientReady(0, 0, 1.0), GradientReady(0, 1, 1.0))
    tell(peer, received(1, "gather.gradient", bucket=1))
    assert peer.waiting_for() == "worker 1 in the gathering of 'gradient' (step 0, bucket 0)"
    assert is_plain(peer)
    assert peer.snapshot()["gather"]["gatherings"] == {"('gradient', 0, 0)": {"weights": {"0": 1.0}}}


def test_a_part_is_not_taken_for_a_whole() -> None:
    event = Received(1, "gather.gradient", 0, 0, Buffer("inbox", 0, Part(0, 5)), 1.0, None)
    with pytest.raises(UnexpectedMessage, match=r"^worker 0 received 'gather\.gradient'"):
        tell(peer_of(GATHERED), event)
