"""Decentralized parallel SGD: facts to commands."""

from typing import Any

import pytest
from support.peers.newcomers import given, handed, joined, newcomer

from weft.core.actions import Apply, Combine, Compute, Send
from weft.core.errors import ConfigError
from weft.core.events import Started, StepFinished
from weft.core.names import Buffer, Carries, Result, Role, Slot
from weft.core.world import World
from weft.strategies import Gossip
from weft.strategies.parts.rounds import CROSSING
from weft.testing.peers import (
    G0,
    G1,
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
from weft.topologies import Complete, Exponential, Ring, Star, Torus

RING = Gossip(Ring())
STEP_FIRST = Gossip(Ring(), order="step_first")
COMPLETE = Gossip(Complete(), order="step_first")
THIRD = 1 / 3
MIXED = Combine(P0, 1.0, Buffer("mix.0", 0))
"""Parameters that are mixed while the script may write to them are changed by the sum, not replaced."""


def about(value: float) -> Any:
    """A number that equals those close to it."""
    return pytest.approx(value)


def mix(clock: int, bucket: int = 0) -> Buffer:
    return Buffer(f"mix.{clock % 2}", bucket)


def test_overlap_offers_the_parameters_before_the_gradient_is_computed() -> None:
    assert tell(peer_of(RING, num_workers=4), Started(0)) == [
        Combine(mix(0), 0.0, P0, about(THIRD - 1)),
        Send(1, "mix", 0, 0, P0, 1.0),
        Send(3, "mix", 0, 0, P0, 1.0),
        Compute(0),
    ]


def test_overlap_mixes_then_applies_then_offers_the_next_step() -> None:
    peer = peer_of(RING, num_workers=2)
    assert tell(peer, Started(0), received(1, "mix", 0)) == [Combine(mix(0), 1.0, IN0, 0.5)]
    assert tell(peer, StepFinished(0, 8.0, None)) == [
        MIXED,
        Apply(G0, P0),
        Combine(mix(1), 0.0, P0, -0.5),
        Send(1, "mix", 1, 0, P0, 1.0),
        Compute(1),
    ]


def test_a_finished_step_waits_for_its_neighbours_parameters() -> None:
    peer = peer_of(RING, num_workers=4)
    assert peer.waiting_for() == "the user's iteration"
    assert tell(peer, Started(0), received(3, "mix", 0), StepFinished(0, 1.0, None)) == []
    assert peer.waiting_for() == "the parameters of step 0 from worker 1"
    assert tell(peer, received(1, "mix", 0))[:2] == [
        Combine(mix(0), 1.0, IN0, THIRD),
        MIXED,
    ]


def test_parameters_of_a_later_step_wait_in_a_sum_of_their_own() -> None:
    peer = peer_of(RING, num_workers=3)
    tell(peer, Started(0), received(1, "mix", 0))
    assert tell(peer, received(1, "mix", 1)) == [Combine(mix(1), 0.0, IN0, THIRD)]


def test_step_first_applies_before_it_offers() -> None:
    peer = peer_of(STEP_FIRST, num_workers=4)
    assert tell(peer, Started(0)) == [Compute(0)]
    assert tell(peer, StepFinished(0, 8.0, None)) == [
        Apply(G0, P0),
        Combine(mix(0), 0.0, P0, about(THIRD)),
        Send(1, "mix", 0, 0, P0, 8.0),
        Send(3, "mix", 0, 0, P0, 8.0),
    ]
    tell(peer, received(1, "mix", 0))
    assert tell(peer, received(3, "mix", 0)) == [
        Combine(mix(0), 1.0, IN0, THIRD),
        Combine(P0, 0.0, mix(0)),
        Compute(1),
    ]


def test_step_first_on_the_complete_graph_weighs_by_samples() -> None:
    peer = peer_of(COMPLETE, num_workers=2, buckets=TWO)
    assert tell(peer, StepFinished(0, 6.0, None)) == [
        Apply(G0, P0),
        Apply(G1, P1),
        Combine(mix(0, 0), 0.0, P0, 6.0),
        Send(1, "mix", 0, 0, P0, 6.0),
        Combine(mix(0, 1), 0.0, P1, 6.0),
        Send(1, "mix", 0, 1, P1, 6.0),
    ]
    assert tell(peer, received(1, "mix", 0, 1, weight=2.0)) == [Combine(mix(0, 1), 1.0, IN1, 2.0)]
    assert tell(peer, received(1, "mix", 0, 0, weight=2.0)) == [
        Combine(mix(0, 0), 1.0, IN0, 2.0),
        Combine(P0, 0.0, mix(0, 0), 1 / 8),
        Combine(P1, 0.0, mix(0, 1), 1 / 8),
        Compute(1),
    ]


def test_a_hub_that_talks_to_everybody_does_not_weigh_by_samples() -> None:
    peer = peer_of(Gossip(Star(), order="step_first"), num_workers=3)
    assert tell(peer, StepFinished(0, 6.0, None))[1] == Combine(mix(0), 0.0, P0, about(THIRD))


def test_nobodys_samples_leave_the_parameters_alone() -> None:
    peer = peer_of(COMPLETE, num_workers=2)
    tell(peer, StepFinished(0, 0.0, None))
    assert tell(peer, received(1, "mix", 0, weight=0.0)) == [
        Combine(mix(0), 1.0, IN0, 0.0),
        Compute(1),
    ]


def test_one_worker_alone_mixes_with_itself() -> None:
    peer = peer_of(Gossip(), num_workers=1)
    assert tell(peer, Started(0)) == [Combine(mix(0), 0.0, P0, 0.0), Compute(0)]
    assert tell(peer, StepFinished(0, 1.0, None))[-1] == Compute(1)


def test_a_dynamic_graph_has_other_neighbours_in_every_round() -> None:
    peer = peer_of(Gossip(Exponential(one_peer=True)), num_workers=4)
    sent = [tell(peer, Started(0))[1]]
    for step in range(3):
        source = 3 if step % 2 == 0 else 2
        tell(peer, received(source, "mix", step))
        sent += [action for action in tell(peer, StepFinished(step, 1.0, None)) if type(action) is Send]
    assert [send.to for send in sent] == [1, 2, 1, 2]


def test_only_trained_buckets_are_mixed() -> None:
    actions = tell(peer_of(RING, num_workers=2, buckets=WITH_STATE), Started(0))
    assert actions == [Combine(mix(0), 0.0, P0, -0.5), Send(1, "mix", 0, 0, P0, 1.0), Compute(0)]


def test_a_round_that_lacks_only_the_departed_is_mixed_when_they_leave() -> None:
    peer = peer_of(RING, num_workers=4)
    tell(peer, Started(0), received(1, "mix", 0), StepFinished(0, 1.0, None))
    assert tell(peer, members(0, 1, 2)) == [
        Combine(mix(0), 1.0, P0, THIRD),
        MIXED,
        Apply(G0, P0),
        Compute(1),
    ]


def test_parameters_of_the_departed_that_came_in_time_are_mixed() -> None:
    peer = peer_of(RING, num_workers=4)
    tell(peer, Started(0), received(1, "mix", 0), received(3, "mix", 0), members(0, 1, 2))
    assert tell(peer, StepFinished(0, 1.0, None))[0] == MIXED


def test_parameters_that_did_not_arrive_before_a_change_are_sent_again_to_those_who_stay() -> None:
    peer = peer_of(RING, num_workers=4)
    tell(peer, Started(0), members(0, 1, 2))
    assert tell(peer, returned(1, "mix", 0)) == [Send(1, "mix", 0, 0, IN0)]
    assert tell(peer, returned(3, "mix", 0)) == []
    assert tell(peer, returned(1, "mix", 0, view=1)) == [Send(1, "mix", 0, 0, IN0)]


def test_the_next_round_waits_for_its_graph_while_its_gradient_is_computed() -> None:
    peer = peer_of(RING, num_workers=4)
    tell(peer, Started(0), received(1, "mix", 0), received(3, "mix", 0))
    assert tell(peer, members(0, 2, 3)) == []
    assert tell(peer, StepFinished(0, 1.0, None))[-2:] == [Apply(G0, P0), Compute(1)]
    for source in (2, 3):
        tell(peer, bodiless(source, "clock", 1))
    assert tell(peer, StepFinished(1, 1.0, None)) == []
    assert peer.waiting_for() == "word from worker 2, 3 that the rounds before 1, over the old graph, are over"
    tell(peer, bodiless(2, "ready", 1))
    assert tell(peer, bodiless(3, "ready", 1)) == [
        Send(2, "go", 1, 0),
        Send(3, "go", 1, 0),
        Combine(mix(1), 0.0, P0, about(THIRD - 1)),
        Send(2, "mix", 1, 0, P0, 1.0),
        Send(3, "mix", 1, 0, P0, 1.0),
    ]
    assert peer.waiting_for() == "the parameters of step 1 from worker 2, 3"


def test_a_round_over_the_old_graph_begins_without_the_departed() -> None:
    peer = peer_of(RING, num_workers=4)
    tell(peer, Started(0), received(1, "mix", 0), received(3, "mix", 0), members(0, 1, 2), StepFinished(0, 1.0, None))
    tell(peer, bodiless(1, "clock", 2))
    assert tell(peer, bodiless(2, "clock", 1)) == [
        Send(1, "until", 2, 0),
        Send(2, "until", 2, 0),
        Combine(mix(1), 0.0, P0, about(2 * THIRD - 1)),
        Send(1, "mix", 1, 0, P0, 1.0),
    ]


def test_step_first_offers_over_the_new_graph_as_soon_as_it_holds() -> None:
    peer = peer_of(STEP_FIRST, me=1, num_workers=4)
    tell(peer, Started(0), members(0, 1, 3), bodiless(0, "until", 0))
    assert tell(peer, StepFinished(0, 8.0, None)) == [Apply(G0, P0)]
    assert tell(peer, bodiless(0, "go", 0)) == [
        Combine(mix(0), 0.0, P0, about(THIRD)),
        Send(0, "mix", 0, 0, P0, 8.0),
        Send(3, "mix", 0, 0, P0, 8.0),
    ]


def test_what_the_departed_sent_for_a_round_of_the_new_graph_is_forgotten() -> None:
    peer = peer_of(RING, me=1, num_workers=4)
    tell(peer, Started(0), *(received(source, "mix", 0) for source in (0, 2)), received(2, "mix", 1))
    tell(peer, members(0, 1, 3), StepFinished(0, 1.0, None), bodiless(0, "until", 1))
    assert tell(peer, bodiless(0, "go", 1))[0] == Combine(mix(1), 0.0, P0, about(THIRD - 1))
    assert tell(peer, received(3, "mix", 1)) == [Combine(mix(1), 1.0, IN0, THIRD)]


def test_an_early_round_of_the_new_graph_may_come_before_the_word_that_it_holds() -> None:
    peer = peer_of(STEP_FIRST, me=1, num_workers=4)
    tell(peer, Started(0), members(0, 1, 3), bodiless(0, "until", 0))
    assert tell(peer, received(3, "mix", 0)) == [Combine(mix(0), 0.0, IN0, THIRD)]


def test_by_samples_the_mean_is_over_those_who_are_left() -> None:
    peer = peer_of(COMPLETE, num_workers=3)
    tell(peer, StepFinished(0, 6.0, None), received(1, "mix", 0, weight=2.0))
    assert tell(peer, members(0, 1)) == [Combine(P0, 0.0, mix(0), 1 / 8), Compute(1)]


def test_weights_that_do_not_fit_a_graph_with_closed_holes_give_way_to_others() -> None:
    peer = peer_of(Gossip(Torus(2, 4), weights="uniform"), num_workers=8)
    tell(peer, members(*range(7)), *(bodiless(source, "clock", 0) for source in range(1, 7)))
    tell(peer, *(bodiless(source, "ready", 0) for source in range(1, 7)))
    row = peer._row(1, 0)
    assert sum(row.values()) == pytest.approx(1.0)
    assert len(set(row.values())) > 1


def test_the_last_worker_goes_on_alone() -> None:
    peer = peer_of(RING, num_workers=2)
    tell(peer, Started(0), StepFinished(0, 1.0, None))
    assert tell(peer, members(0)) == [
        Combine(mix(0), 1.0, P0, 0.5),
        MIXED,
        Apply(G0, P0),
        Combine(mix(1), 0.0, P0, 0.0),
        Compute(1),
    ]


def test_other_messages_are_refused() -> None:
    expected = "worker 0 received '{}' (clock 0, bucket 0) from worker 1, which GossipPeer does not expect now."
    assert refusal(peer_of(RING), received(1, "news")) == expected.format("news")
    assert refusal(peer_of(RING), bodiless(1, "mix")) == expected.format("mix")


def test_the_snapshot_is_plain() -> None:
    peer = peer_of(RING)
    tell(peer, Started(0), received(1, "mix", 0))
    assert is_plain(peer)
    assert peer.snapshot()["step"] == 0


def test_an_unknown_order_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        Gossip(order="mix_first")
    assert str(caught.value) == (
        "order is 'mix_first', but it is 'overlap' or 'step_first'.\n"
        "  Use 'gossip(order=overlap)' to mix while the gradient is computed."
    )


def test_weights_that_bias_the_mean_are_refused_before_anything_starts() -> None:
    with pytest.raises(ConfigError, match="weights='uniform' would bias the mean"):
        Gossip(Star(), weights="uniform").graph(4)


def test_it_declares_one_sum_for_each_step_that_may_be_under_way() -> None:
    world = World(RING.roles(4), ONE, RING.graph(4))
    assert RING.slots(Role.WORKER, world) == (Slot("mix.0"), Slot("mix.1"))
    assert RING.kinds() == {"mix": Carries.STATE, **CROSSING}
    assert RING.result is Result.MEAN


def test_a_newcomer_is_told_the_first_round_that_its_sponsor_has_not_begun() -> None:
    peer = peer_of(RING, num_workers=2)
    tell(peer, Started(0), members(0))
    params = Send(1, "welcome", 0, 0, P0, data={"slot": "params"})
    assert tell(peer, joined(0, 1)) == [params, Send(1, "welcome", 0, 0, data={"step": 0, "round": 1})]
    peer = peer_of(STEP_FIRST, num_workers=2)
    tell(peer, Started(0), members(0))
    assert tell(peer, joined(0, 1))[-1] == Send(1, "welcome", 0, 0, data={"step": 0, "round": 0})


def test_overlap_lets_a_newcomer_go_alone_through_the_round_that_others_have_begun() -> None:
    peer = newcomer(RING, 1, 0, 1, 3)
    assert tell(peer, given(0, 4)) == [Combine(P0, 0.0, IN0)]
    assert tell(peer, handed(0, step=4, round=5)) == [Combine(mix(4), 0.0, P0, 0.0), Compute(4)]
    assert tell(peer, StepFinished(4, 1.0, None)) == [
        MIXED,
        Apply(G0, P0),
        Combine(mix(5), 0.0, P0, about(THIRD - 1)),
        Send(0, "mix", 5, 0, P0, 1.0),
        Send(3, "mix", 5, 0, P0, 1.0),
        Compute(5),
    ]


def test_step_first_lets_a_newcomer_mix_after_its_first_step() -> None:
    peer = newcomer(STEP_FIRST, 1, 0, 1, 3)
    assert tell(peer, given(0, 4), handed(0, step=4, round=4)) == [Compute(4)]
    assert tell(peer, StepFinished(4, 2.0, None)) == [
        Apply(G0, P0),
        Combine(mix(4), 0.0, P0, about(THIRD)),
        Send(0, "mix", 4, 0, P0, 2.0),
        Send(3, "mix", 4, 0, P0, 2.0),
    ]


def test_the_round_that_all_have_begun_is_mixed_without_newcomers_and_the_next_one_with_them() -> None:
    peer = peer_of(RING, num_workers=3)
    tell(peer, Started(0), received(1, "mix", 0), members(0, 1), bodiless(1, "clock", 1))
    assert tell(peer, joined(0, 1, 2))[-1].data == {"step": 0, "round": 1}
    mixed, apply, _, *sends = tell(peer, StepFinished(0, 1.0, None))
    assert [mixed, apply] == [MIXED, Apply(G0, P0)]
    assert sends == [Send(1, "mix", 1, 0, P0, 1.0), Send(2, "mix", 1, 0, P0, 1.0), Compute(1)]
