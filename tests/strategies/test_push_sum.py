"""Stochastic gradient push: facts to commands."""

from support.peers.newcomers import given, handed, joined, newcomer

from weft.core.actions import Apply, Combine, Compute, Send
from weft.core.events import Returned, Started, StepFinished
from weft.core.names import Buffer, Carries, Result, Role, Slot
from weft.core.world import World
from weft.strategies import PushSum
from weft.strategies.parts.rounds import CROSSING
from weft.testing.peers import (
    G0,
    IN0,
    IN1,
    ONE,
    P0,
    P1,
    TWO,
    WITH_STATE,
    bodiless,
    is_plain,
    members,
    peer_of,
    received,
    refusal,
    returned,
    tell,
)
from weft.topologies import Complete, Exponential

ONE_PEER = PushSum()
M0, M1 = Buffer("push_sum.mass", 0), Buffer("push_sum.mass", 1)
S0, S1 = Buffer("push_sum.seen", 0), Buffer("push_sum.seen", 1)


def test_the_mass_begins_as_the_parameters() -> None:
    assert tell(peer_of(ONE_PEER, buckets=TWO), Started(0)) == [
        Combine(M0, 0.0, P0),
        Combine(S0, 0.0, P0),
        Combine(M1, 0.0, P1),
        Combine(S1, 0.0, P1),
        Compute(0),
    ]


def test_the_mass_moves_by_what_the_optimizer_moved_and_equal_shares_are_pushed() -> None:
    peer = peer_of(PushSum(Complete()), num_workers=3)
    assert tell(peer, Started(0), StepFinished(0, 1.0, None)) == [
        Combine(M0, 1.0, S0, -1.0),
        Apply(G0, P0),
        Combine(M0, 1.0, P0),
        Combine(M0, 1 / 3),
        Send(1, "share", 0, 0, M0, 1 / 3),
        Send(2, "share", 0, 0, M0, 1 / 3),
    ]


def test_the_parameters_are_the_mass_over_the_weight_once_all_shares_are_in() -> None:
    peer = peer_of(ONE_PEER, num_workers=4)
    tell(peer, Started(0), StepFinished(0, 1.0, None))
    assert tell(peer, received(3, "share", 0, weight=0.25)) == [
        Combine(M0, 1.0, IN0),
        Combine(P0, 0.0, M0, 1 / 0.75),
        Combine(S0, 0.0, P0),
        Compute(1),
    ]


def test_an_early_share_is_added_at_once_and_counts_for_its_own_step() -> None:
    peer = peer_of(ONE_PEER, num_workers=4)
    assert tell(peer, Started(0), received(2, "share", 1, weight=0.5)) == [Combine(M0, 1.0, IN0)]
    assert tell(peer, StepFinished(0, 1.0, None))[-1] == Send(1, "share", 0, 0, M0, 0.75)
    assert tell(peer, received(3, "share", 0, weight=0.5))[-3:-1] == [
        Combine(P0, 0.0, M0, 1 / 1.25),
        Combine(S0, 0.0, P0),
    ]
    assert tell(peer, StepFinished(1, 1.0, None))[-1] == Compute(2)


def test_a_worker_says_whose_shares_it_waits_for() -> None:
    peer = peer_of(PushSum(Complete()), num_workers=3, buckets=TWO)
    assert peer.waiting_for() == "the user's iteration"
    tell(peer, Started(0), StepFinished(0, 1.0, None))
    assert peer.waiting_for() == "the shares of step 0 from worker 1, 2"
    tell(peer, received(1, "share", 0), received(1, "share", 0, bucket=1), received(2, "share", 0))
    assert peer.waiting_for() == "the shares of step 0 from worker 2"


def test_weights_are_kept_bucket_by_bucket() -> None:
    peer = peer_of(ONE_PEER, num_workers=2, buckets=TWO)
    tell(peer, Started(0), StepFinished(0, 1.0, None), received(1, "share", 0, bucket=1, weight=1.5))
    assert tell(peer, received(1, "share", 0, weight=0.5))[1:] == [
        Combine(P0, 0.0, M0, 1.0),
        Combine(S0, 0.0, P0),
        Combine(P1, 0.0, M1, 0.5),
        Combine(S1, 0.0, P1),
        Compute(1),
    ]


def test_the_mass_of_a_share_for_one_who_has_left_goes_back() -> None:
    peer = peer_of(ONE_PEER, num_workers=2, buckets=TWO)
    tell(peer, Started(0), StepFinished(0, 1.0, None))
    tell(peer, members(0))
    assert tell(peer, returned(1, "share", 0, bucket=1, weight=0.5)) == [Combine(M1, 1.0, IN1)]
    assert peer.weight == {0: 0.5, 1: 1.0}


def test_a_share_for_one_who_stays_is_sent_again() -> None:
    peer = peer_of(ONE_PEER, num_workers=3)
    tell(peer, Started(0), StepFinished(0, 1.0, None))
    share = Send(1, "share", 0, 0, IN0, 0.5)
    assert tell(peer, returned(1, "share", 0, weight=0.5)) == [share]
    tell(peer, members(0, 1))
    assert tell(peer, returned(1, "share", 0, weight=0.5)) == [share]
    assert peer.weight == {0: 0.5}


def test_shares_of_the_departed_are_not_waited_for() -> None:
    peer = peer_of(PushSum(Complete()), num_workers=3)
    tell(peer, Started(0), StepFinished(0, 1.0, None), received(1, "share", 0, weight=0.5))
    assert tell(peer, members(0, 1)) == [Combine(P0, 0.0, M0, 1 / (1 / 3 + 0.5)), Combine(S0, 0.0, P0), Compute(1)]


def test_a_share_of_the_departed_that_came_in_time_is_kept() -> None:
    peer = peer_of(PushSum(Complete()), num_workers=3)
    tell(peer, Started(0), received(2, "share", 0, weight=0.5), received(2, "share", 1, weight=0.25), members(0, 1))
    assert peer.weight == {0: 1.75}


def test_a_round_under_way_is_pushed_to_those_who_are_left_of_the_old_graph() -> None:
    peer = peer_of(PushSum(Complete()), me=1, num_workers=3)
    tell(peer, Started(0), members(0, 1))
    assert tell(peer, StepFinished(0, 1.0, None))[-1] == Combine(M0, 1.0, P0)
    assert peer.waiting_for() == "word from worker 0 before which round the graph of view 1 holds"
    assert tell(peer, bodiless(0, "until", 1)) == [Combine(M0, 0.5), Send(0, "share", 0, 0, M0, 0.5)]
    assert tell(peer, received(0, "share", 0, weight=0.5))[-2:] == [Send(0, "ready", 1, 0), Compute(1)]


def test_the_next_round_waits_for_the_new_graph() -> None:
    peer = peer_of(ONE_PEER, me=1, num_workers=4)
    tell(peer, Started(0), members(1, 2, 3))
    tell(peer, bodiless(2, "clock", 0), bodiless(3, "clock", 0), bodiless(2, "ready", 0))
    tell(peer, StepFinished(0, 1.0, None))
    assert peer.waiting_for() == "word from worker 3 that the rounds before 0, over the old graph, are over"
    assert tell(peer, bodiless(3, "ready", 0)) == [
        Send(2, "go", 0, 0),
        Send(3, "go", 0, 0),
        Combine(M0, 0.5),
        Send(2, "share", 0, 0, M0, 0.5),
    ]
    assert peer.waiting_for() == "the shares of step 0 from worker 3"


def test_one_worker_alone_keeps_all_its_mass() -> None:
    peer = peer_of(ONE_PEER, num_workers=1)
    assert tell(peer, Started(0), StepFinished(0, 1.0, None))[3:] == [
        Combine(M0, 1.0),
        Combine(P0, 0.0, M0, 1.0),
        Combine(S0, 0.0, P0),
        Compute(1),
    ]


def test_state_is_the_workers_own() -> None:
    assert tell(peer_of(ONE_PEER, buckets=WITH_STATE), Started(0)) == [
        Combine(M0, 0.0, P0),
        Combine(S0, 0.0, P0),
        Compute(0),
    ]


def test_other_messages_are_refused() -> None:
    expected = "worker 0 received '{}' (clock 0, bucket 0) from worker 1, which PushSumPeer does not expect now."
    assert refusal(peer_of(ONE_PEER), received(1, "mix")) == expected.format("mix")
    assert refusal(peer_of(ONE_PEER), bodiless(1, "share")) == expected.format("share")


def test_the_snapshot_is_plain() -> None:
    peer = peer_of(ONE_PEER, num_workers=4)
    tell(peer, Started(0), received(2, "share", 1, weight=0.5))
    snapshot = peer.snapshot()
    assert snapshot.pop("rounds")["next"] == 0
    assert snapshot == {"step": 0, "weight": {"0": 1.5}, "arrived": {"1": [2]}, "mixing": False}
    assert is_plain(peer)


def test_it_declares_memory_for_the_mass_and_takes_one_peer_at_a_time() -> None:
    world = World(ONE_PEER.roles(3), ONE, ONE_PEER.graph(3))
    assert ONE_PEER.topology == Exponential(one_peer=True)
    assert ONE_PEER.slots(Role.WORKER, world) == (Slot("push_sum.mass"), Slot("push_sum.seen"))
    assert ONE_PEER.kinds() == {"share": Carries.EXACT, **CROSSING}
    assert ONE_PEER.result is Result.MEAN


def test_who_welcomes_newcomers_gives_each_as_much_of_its_mass_as_it_keeps() -> None:
    peer = peer_of(ONE_PEER, num_workers=3, buckets=WITH_STATE)
    tell(peer, Started(0), members(0))
    mass, params = {"slot": "push_sum.mass"}, {"slot": "params"}

    def welcomed(to: int) -> list[Send]:
        return [
            Send(to, "welcome", 0, 0, P0, data=params),
            Send(to, "welcome", 0, 1, P1, data=params),
            Send(to, "welcome", 0, 0, M0, 1 / 3, data=mass),
            Send(to, "welcome", 0, 1, M1, data=mass),
            Send(to, "welcome", 0, 0, data={"step": 0, "round": 0}),
        ]

    assert tell(peer, joined(0, 1, 2)) == [Combine(M0, 1 / 3), *welcomed(1), *welcomed(2)]
    assert peer.weight == {0: 1 / 3}


def test_nobody_else_gives_mass_away() -> None:
    peer = peer_of(ONE_PEER, me=1, num_workers=3)
    tell(peer, Started(0), members(0, 1))
    assert tell(peer, joined(0, 1, 2)) == []
    assert peer.weight == {0: 1.0}


def test_a_newcomer_has_the_mass_and_the_weight_that_it_was_given() -> None:
    peer = newcomer(ONE_PEER, 1, 0, 1, 3)
    tell(peer, given(0, 4), given(0, 4, slot="push_sum.mass", weight=0.25))
    assert tell(peer, handed(0, step=4, round=4)) == [Combine(S0, 0.0, P0), Compute(4)]
    assert peer.weight == {0: 0.25}
    assert tell(peer, StepFinished(4, 1.0, None))[-1] == Send(3, "share", 4, 0, M0, 0.125)


def test_mass_that_did_not_reach_a_newcomer_goes_back_to_its_sponsor() -> None:
    peer = peer_of(ONE_PEER, num_workers=2)
    tell(peer, Started(0), members(0), joined(0, 1), members(0, view=3))
    lost = Returned(1, "welcome", 0, 0, IN0, 0.5, {"slot": "push_sum.mass"}, 2)
    assert tell(peer, lost) == [Combine(M0, 1.0, IN0)]
    assert peer.weight == {0: 1.0}
    assert tell(peer, Returned(1, "welcome", 0, 0, IN0, 1.0, {"slot": "params"}, 2)) == []


def test_mass_for_a_newcomer_whose_channel_broke_is_sent_again() -> None:
    peer = peer_of(ONE_PEER, num_workers=2)
    tell(peer, Started(0), members(0), joined(0, 1))
    lost = Returned(1, "welcome", 0, 0, IN0, 0.5, {"slot": "push_sum.mass"}, 2)
    assert tell(peer, lost) == [Send(1, "welcome", 0, 0, IN0, 0.5, {"slot": "push_sum.mass"})]
    assert peer.weight == {0: 0.5}


def test_a_share_of_one_that_left_does_not_stand_for_that_of_a_newcomer() -> None:
    peer = peer_of(ONE_PEER, num_workers=2)
    tell(peer, Started(0), received(1, "share", 0, weight=0.5), members(0), joined(0, 1))
    assert tell(peer, StepFinished(0, 1.0, None))[-1] == Send(1, "share", 0, 0, M0, 0.375)
    assert peer.waiting_for() == "the shares of step 0 from worker 1"
