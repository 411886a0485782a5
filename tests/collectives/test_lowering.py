"""A lowered collective as one peer speaks it: facts to commands."""

from dataclasses import replace

import pytest
from support.simulated.reducers import ReduceOnce

from weft.collectives import Flat, Lowered, butterfly, halving_doubling, ring, tree
from weft.core.actions import MAX, MEAN, SUM, Apply, Combine, Compute, Reduce, Send
from weft.core.errors import IllegalAction, UnexpectedMessage
from weft.core.events import GradientReady, Reduced, Started, StepFinished
from weft.core.names import Buffer, Carries, Part, Result, Role, Roles, Slot
from weft.core.rules import AdaGrad
from weft.core.world import World
from weft.strategies import AllReduce, Downpour, LocalSGD, Neighbours, StaleSync
from weft.testing.peers import G0, IN0, P0, P1, TWO, WITH_STATE, is_plain, peer_of, received, tell

BUTTERFLY = Lowered(AllReduce(), "butterfly", Flat(butterfly))
RING = Lowered(AllReduce(), "ring", Flat(ring))
SUM0 = Buffer("butterfly.sum.0", 0)
EARLY0 = Buffer("butterfly.early.0", 0)


def test_a_reduce_begins_as_a_weighted_copy_and_the_first_message() -> None:
    peer = peer_of(BUTTERFLY, num_workers=2)
    assert tell(peer, Started(0)) == [Compute(0)]
    assert tell(peer, GradientReady(0, 0, 3.0)) == [
        Combine(SUM0, 0.0, G0, 3.0),
        Send(1, "butterfly.gradient", 0, 0, SUM0, 3.0),
    ]
    assert peer.holds_user
    assert peer.waiting_for() == "worker 1 in the butterfly reduction of 'gradient' (step 0, bucket 0)"


def test_the_last_message_gives_the_mean_over_the_weights_and_tells_the_inner_peer() -> None:
    peer = peer_of(BUTTERFLY, num_workers=2)
    tell(peer, GradientReady(0, 0, 3.0))
    assert tell(peer, received(1, "butterfly.gradient", weight=5.0)) == [
        Combine(SUM0, 1.0, IN0),
        Combine(G0, 0.0, SUM0, 1 / 8),
    ]
    assert not peer.holds_user
    assert peer.waiting_for() == "the user's iteration"
    assert tell(peer, StepFinished(0, 3.0, None)) == [Apply(G0, P0), Compute(1)]


def test_a_message_before_its_turn_waits_in_memory_of_its_own() -> None:
    peer = peer_of(BUTTERFLY, num_workers=2)
    assert tell(peer, received(1, "butterfly.gradient", weight=5.0)) == [Combine(EARLY0, 0.0, IN0)]
    assert tell(peer, GradientReady(0, 0, 3.0)) == [
        Combine(SUM0, 0.0, G0, 3.0),
        Send(1, "butterfly.gradient", 0, 0, SUM0, 3.0),
        Combine(SUM0, 1.0, EARLY0),
        Combine(G0, 0.0, SUM0, 1 / 8),
    ]


def test_a_message_of_a_later_round_waits_for_the_earlier_one() -> None:
    peer = peer_of(BUTTERFLY, num_workers=4)
    tell(peer, GradientReady(0, 0, 1.0))
    assert tell(peer, received(2, "butterfly.gradient", weight=2.0)) == [
        Combine(Buffer("butterfly.early.1", 0), 0.0, IN0)
    ]
    assert tell(peer, received(1, "butterfly.gradient", weight=1.0)) == [
        Combine(SUM0, 1.0, IN0),
        Send(2, "butterfly.gradient", 0, 0, SUM0, 2.0),
        Combine(SUM0, 1.0, Buffer("butterfly.early.1", 0)),
        Combine(G0, 0.0, SUM0, 1 / 4),
    ]


def test_the_ring_speaks_in_parts() -> None:
    peer = peer_of(RING, num_workers=2)
    first, second = (Buffer("ring.sum.0", 0, Part(i, 2)) for i in range(2))
    body = Buffer("inbox", 0, Part(1, 2))
    assert tell(peer, GradientReady(0, 0, 1.0))[1:] == [Send(1, "ring.gradient", 0, 0, first, 1.0)]
    message = replace(received(1, "ring.gradient", weight=3.0), body=body)
    assert tell(peer, message) == [Combine(second, 1.0, body), Send(1, "ring.gradient", 0, 0, second, 4.0)]


def test_a_weight_of_zero_contributes_nothing_whatever_it_holds() -> None:
    peer = peer_of(BUTTERFLY, num_workers=2)
    assert tell(peer, GradientReady(0, 0, 0.0))[0] == Combine(SUM0, 0.0)
    assert tell(peer, received(1, "butterfly.gradient", weight=0.0)) == [Combine(SUM0, 1.0, IN0)]
    assert not peer.holds_user


def test_a_sum_is_not_divided() -> None:
    peer = peer_of(Lowered(ReduceOnce(SUM), "butterfly", Flat(butterfly)), num_workers=2)
    tell(peer, StepFinished(0, 3.0, None))
    assert tell(peer, received(1, "butterfly.all", weight=5.0))[1:] == [Combine(P0, 0.0, SUM0), Compute(1)]


def test_a_maximum_stays_an_action() -> None:
    peer = peer_of(Lowered(ReduceOnce(MAX), "tree", Flat(tree)), num_workers=2)
    reduce = Reduce((0, 1), "all", 0, P0, MAX, 3.0)
    assert tell(peer, StepFinished(0, 3.0, None)) == [reduce]
    assert tell(peer, Reduced(0, P0, 6.0)) == [Compute(1)]


def test_a_mean_of_one_is_left_as_it_is() -> None:
    peer = peer_of(BUTTERFLY, num_workers=1)
    assert tell(peer, GradientReady(0, 0, 3.0)) == [Combine(SUM0, 0.0, G0, 3.0)]
    assert not peer.holds_user


def test_buckets_are_reduced_side_by_side() -> None:
    peer = peer_of(Lowered(LocalSGD(period=1), "butterfly", Flat(butterfly)), num_workers=2, buckets=TWO)
    tell(peer, StepFinished(0, 1.0, None))
    assert tell(peer, received(1, "butterfly.average", bucket=1))[-1] == Combine(
        P1, 0.0, Buffer("butterfly.sum.0", 1), 0.5
    )
    assert tell(peer, received(1, "butterfly.average"))[-1] == Compute(1)


def test_messages_of_the_inner_strategy_pass() -> None:
    peer = peer_of(Lowered(StaleSync(), "ring", Flat(ring)), num_workers=1)
    assert tell(peer, StepFinished(0, 1.0, None)) == [Send(1, "push", 0, 0, G0, 1.0)]
    assert tell(peer, received(1, "params", 1)) == [Combine(P0, 0.0, IN0), Compute(1)]


def test_a_second_reduce_of_a_bucket_under_way_is_refused() -> None:
    peer = peer_of(BUTTERFLY, num_workers=2)
    tell(peer, GradientReady(0, 0, 3.0))
    with pytest.raises(IllegalAction) as caught:
        tell(peer, GradientReady(1, 0, 3.0))
    again = Reduce((0, 1), "gradient", 1, G0, MEAN, 3.0)
    assert caught.value.message == f"{again} began while another Reduce of bucket 0 is under way."


def test_a_part_that_the_schedule_does_not_know_is_refused() -> None:
    peer = peer_of(RING, num_workers=3)
    with pytest.raises(UnexpectedMessage) as caught:
        tell(peer, received(1, "ring.gradient"))
    assert caught.value.message == (
        "worker 0 received 'ring.gradient' (clock 0, bucket 0) from worker 1, which LoweredPeer does not expect now."
    )


def test_the_snapshot_holds_both_peers_and_is_plain() -> None:
    peer, inner = peer_of(BUTTERFLY, num_workers=4), peer_of(AllReduce(), num_workers=4)
    tell(peer, GradientReady(0, 0, 1.0), received(2, "butterfly.gradient", weight=2.0))
    tell(inner, GradientReady(0, 0, 1.0))
    assert is_plain(peer)
    assert peer.snapshot() == {
        **inner.snapshot(),
        "butterfly": {
            "step": 0,
            "runs": {"('gradient', 0, 0)": {"at": 1, "weight": 1.0}},
            "early": {"('gradient', 0, 0)": [[2, 2.0]]},
            "recovery": {"num_ended": [0], "last": {}, "words": {}, "untold": [], "owed": {}, "unclaimed": []},
        },
    }


def test_it_declares_two_sums_and_memory_for_early_messages() -> None:
    recipe = Lowered(AllReduce(), "halving_doubling", Flat(halving_doubling))
    slots = recipe.slots(Role.WORKER, World(Roles(4), TWO))
    assert [slot.name for slot in slots] == [
        "halving_doubling.sum.0",
        "halving_doubling.sum.1",
        "halving_doubling.early.0",
        "halving_doubling.early.1",
    ]
    assert recipe.kinds() == {
        "gradient": Carries.GRADIENT,
        "state": Carries.STATE,
        "halving_doubling.gradient": Carries.DELTA,
        "halving_doubling.state": Carries.STATE,
        "halving_doubling@ended": Carries.NOTHING,
        "halving_doubling@handed": Carries.EXACT,
    }


def test_everything_else_is_the_inner_strategys() -> None:
    served = Lowered(Downpour(servers=2, server=AdaGrad(0.1)), "ring", Flat(ring))
    assert served.roles(3) == Roles(3, 2)
    assert served.rules(World(Roles(3, 2), TWO)) == {"server": AdaGrad(0.1)}
    assert served.result is Result.SERVERS
    assert not served.scored
    told = Lowered(Neighbours(), "ring", Flat(ring))
    graph = told.graph(4)
    assert graph is not None
    assert graph.num_places == 4
    assert told.scored
    assert Slot("neighbours.sum.0") in told.slots(Role.WORKER, World(Roles(4), WITH_STATE, graph))
