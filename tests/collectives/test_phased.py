"""Reductions of what a codec says, as one worker speaks them: facts to commands."""

from dataclasses import replace

import pytest
from support.simulated.reducers import ReduceOnce

from weft.codecs import PowerSGD, TernGrad, TopK
from weft.collectives import Flat, Lowered, butterfly
from weft.collectives.phased import AT_END, AT_ONCE, NO_FEEDBACK, Phase, Phased, slot
from weft.core.actions import MEAN, Apply, Combine, Compute, Encode, Reduce, Send, add, copy
from weft.core.events import GradientReady, Received, Reduced, Started, StepFinished
from weft.core.names import Buffer, Carries, Role, Roles, Slot
from weft.core.world import World
from weft.strategies import AllReduce, StaleSync
from weft.testing.peers import G0, ONE, P0, TWO, is_plain, members, peer_of, received, tell

ONCE = Phased(AllReduce(), ("gradient",), (Phase("coded", TopK()),), AT_ONCE)
TWICE = Phased(
    AllReduce(),
    ("gradient",),
    (Phase("left", PowerSGD().left), Phase("right", PowerSGD().right)),
    AT_END,
    starts_warm=True,
)
AGREED = Phased(AllReduce(), ("gradient",), (Phase("peaks", TernGrad().peaks), Phase("signs", TernGrad())), NO_FEEDBACK)
CODED, RESIDUAL, VELOCITY, LEFT, RIGHT, PEAKS, SIGNS = (
    Buffer(slot("gradient", name), 0) for name in ("coded", "residual", "velocity", "left", "right", "peaks", "signs")
)


def reduce_of(coded: Buffer, clock: int = 0, weight: float = 3.0, group: tuple[int, ...] = (0, 1, 2)) -> Reduce:
    return Reduce(group, coded.slot, clock, coded, MEAN, weight)


def test_a_contribution_is_encoded_with_what_was_left_out_and_what_is_coded_is_reduced() -> None:
    peer = peer_of(ONCE)
    assert tell(peer, Started(0)) == [Compute(0)]
    assert tell(peer, GradientReady(0, 0, 3.0)) == [
        Encode("gradient:coded", 0, CODED, G0, RESIDUAL),
        reduce_of(CODED),
    ]
    assert peer.holds_user


def test_the_result_goes_where_the_inner_peer_expects_it() -> None:
    peer = peer_of(ONCE)
    tell(peer, GradientReady(0, 0, 3.0))
    assert tell(peer, Reduced(0, CODED, 8.0)) == [copy(G0, CODED)]
    assert not peer.holds_user
    assert tell(peer, StepFinished(0, 3.0, None)) == [Apply(G0, P0), Compute(1)]


def test_of_no_weight_nothing_comes_and_nothing_is_applied() -> None:
    peer = peer_of(ONCE)
    assert tell(peer, GradientReady(0, 0, 0.0)) == [
        Encode("gradient:coded", 0, CODED, G0),
        reduce_of(CODED, weight=0.0),
    ]
    assert tell(peer, Reduced(0, CODED, 0.0)) == []
    assert tell(peer, StepFinished(0, 0.0, None)) == [Compute(1)]


@pytest.mark.parametrize("recipe", [TWICE, AGREED, replace(ONCE, has_velocity=True)], ids=["twice", "agreed", "dgc"])
def test_a_contribution_of_no_weight_leaves_no_traces(recipe: Phased) -> None:
    peer = peer_of(recipe)
    first, _ = tell(peer, GradientReady(0, 0, 0.0))
    assert (first.source, first.residual, first.given) == (G0, None, None)
    last = first
    if len(recipe.phases) > 1:
        last, _ = tell(peer, Reduced(0, first.into, 5.0))
        assert (last.source, last.residual, last.given) == (G0, None, first.into)
    assert tell(peer, Reduced(0, last.into, 5.0)) == [copy(G0, last.into)]


def test_a_codec_with_momentum_is_given_its_velocity() -> None:
    peer = peer_of(replace(ONCE, has_velocity=True))
    assert tell(peer, GradientReady(0, 0, 3.0))[0] == Encode("gradient:coded", 0, CODED, G0, RESIDUAL, VELOCITY)


def test_what_the_first_phase_agrees_on_is_given_to_the_second() -> None:
    peer = peer_of(AGREED)
    assert tell(peer, GradientReady(0, 0, 3.0)) == [Encode("gradient:peaks", 0, PEAKS, G0), reduce_of(PEAKS)]
    assert tell(peer, Reduced(0, PEAKS, 8.0)) == [Encode("gradient:signs", 0, SIGNS, G0, None, PEAKS), reduce_of(SIGNS)]
    assert tell(peer, Reduced(0, SIGNS, 8.0)) == [copy(G0, SIGNS)]


def test_what_the_result_lacks_stays_in_the_residual_and_the_next_round_starts_warm() -> None:
    peer = peer_of(TWICE)
    assert tell(peer, GradientReady(0, 0, 3.0))[0] == Encode("gradient:left", 0, LEFT, G0, RESIDUAL)
    assert tell(peer, Reduced(0, LEFT, 8.0))[0] == Encode("gradient:right", 0, RIGHT, G0, RESIDUAL, LEFT)
    assert tell(peer, Reduced(0, RIGHT, 8.0)) == [copy(G0, RIGHT), add(RESIDUAL, G0, -1.0)]
    tell(peer, StepFinished(0, 3.0, None))
    assert tell(peer, GradientReady(1, 0, 3.0))[0] == Encode("gradient:left", 1, LEFT, G0, RESIDUAL, RIGHT)


def test_a_first_phase_of_no_weight_ends_the_round() -> None:
    peer = peer_of(TWICE)
    tell(peer, GradientReady(0, 0, 0.0))
    assert tell(peer, Reduced(0, LEFT, 0.0)) == []
    assert peer.rounds == {}
    tell(peer, StepFinished(0, 0.0, None))
    assert tell(peer, GradientReady(1, 0, 3.0))[0] == Encode("gradient:left", 1, LEFT, G0, RESIDUAL)


@pytest.mark.parametrize("phase", [0, 1])
def test_a_change_of_members_begins_a_phase_again_with_what_is_coded_already(phase: int) -> None:
    peer = peer_of(TWICE)
    tell(peer, GradientReady(0, 0, 3.0))
    if phase:
        tell(peer, Reduced(0, LEFT, 8.0))
    coded = (LEFT, RIGHT)[phase]
    assert tell(peer, members(0, 1)) == [reduce_of(coded, group=(0, 1))]
    assert peer.holds_user
    answer = tell(peer, Reduced(0, coded, 5.0))
    assert answer[-1] == (add(RESIDUAL, G0, -1.0) if phase else reduce_of(RIGHT, group=(0, 1)))


def test_other_reductions_and_other_strategies_are_left_alone() -> None:
    peer = peer_of(Phased(ReduceOnce(), (), ONCE.phases))
    assert tell(peer, StepFinished(0, 3.0, None)) == [Reduce((0, 1, 2), "all", 0, P0, MEAN, 3.0)]
    assert tell(peer, Reduced(0, P0, 3.0)) == [Compute(1)]


def test_under_a_lowering_what_is_coded_is_summed_whole_from_partner_to_partner() -> None:
    peer = peer_of(Lowered(TWICE, "butterfly", Flat(butterfly)), num_workers=2)
    total = Buffer("butterfly.sum.0", 0)
    assert tell(peer, GradientReady(0, 0, 3.0))[1:] == [
        Combine(total, 0.0, LEFT, 3.0),
        Send(1, "butterfly.gradient:left", 0, 0, total, 3.0),
    ]
    answer = tell(peer, received(1, "butterfly.gradient:left", weight=5.0))
    assert answer[1:3] == [
        Combine(LEFT, 0.0, total, 1 / 8),
        Encode("gradient:right", 0, RIGHT, G0, RESIDUAL, LEFT),
    ]
    assert peer.holds_user


def test_who_has_no_weight_brings_nothing_in_the_code_of_the_others() -> None:
    peer = peer_of(Lowered(TWICE, "butterfly", Flat(butterfly)), num_workers=2)
    total = Buffer("butterfly.sum.0", 0)
    assert tell(peer, GradientReady(0, 0, 0.0))[1:3] == [copy(total, LEFT), Combine(total, 0.0)]


def test_a_phase_that_others_have_ended_is_handed_on_and_the_next_begins() -> None:
    peer = peer_of(Lowered(TWICE, "butterfly", Flat(butterfly)))
    tell(peer, GradientReady(0, 0, 3.0), members(0, 1))
    tell(peer, Received(1, "butterfly@ended", 1, 0, None, 1.0, {"ended": "1"}))
    handed = Received(1, "butterfly@handed", 0, 0, Buffer("inbox", 0), 9.0, {"kind": "gradient:left"})
    assert Encode("gradient:right", 0, RIGHT, G0, RESIDUAL, LEFT) in tell(peer, handed)


def test_it_declares_its_slots_its_kinds_and_its_codecs() -> None:
    world = World(Roles(3), ONE)
    assert ONCE.slots(Role.WORKER, world) == (Slot("gradient:coded"), Slot("gradient:residual"))
    assert AGREED.slots(Role.WORKER, world) == (Slot("gradient:peaks"), Slot("gradient:signs"))
    names = [declared.name for declared in replace(TWICE, has_velocity=True).slots(Role.WORKER, world)]
    assert names == ["gradient:left", "gradient:right", "gradient:residual", "gradient:velocity"]
    assert TWICE.kinds() == {
        **AllReduce().kinds(),
        "gradient:left": Carries.GRADIENT,
        "gradient:right": Carries.GRADIENT,
    }
    assert TWICE.codecs() == {"gradient:left": PowerSGD().left, "gradient:right": PowerSGD().right}
    served = Phased(StaleSync(), ("push",), ONCE.phases)
    assert served.slots(Role.SERVER, World(Roles(2, 1), ONE)) == StaleSync().slots(Role.SERVER, world)


def test_buckets_have_rounds_of_their_own_and_the_snapshot_is_plain() -> None:
    peer = peer_of(TWICE, buckets=TWO)
    tell(peer, GradientReady(0, 0, 3.0), GradientReady(0, 1, 3.0), Reduced(0, LEFT, 8.0))
    assert is_plain(peer)
    assert peer.snapshot()["phases"]["rounds"] == {"('gradient', 0)": {"phase": 1}, "('gradient', 1)": {"phase": 0}}
