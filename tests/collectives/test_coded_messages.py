"""Codecs on messages from node to node: pushes with feedback, answers as differences, and plain casts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from support.peers.newcomers import came_again, gives, without
from support.peers.puppets import Puppets

from weft.codecs import DGC, FP16, TopK
from weft.collectives.coded_messages import CodedMessages
from weft.core.actions import Action, Combine, Compute, Encode, Send, add, copy
from weft.core.events import Event, Received, Returned, Started, StepFinished
from weft.core.names import Buffer, Carries, Role, Roles
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.strategies import LocalSGD, Neighbours, StaleSync
from weft.testing.peers import G0, IN0, ONE, P0, TWO, bodiless, is_plain, members, peer_of, received, returned, tell

SERVED = CodedMessages(StaleSync(), TopK(), ("push",), ("params",))
CODED, RESIDUAL, VELOCITY = (Buffer(f"push:{name}", 0) for name in ("coded", "residual", "velocity"))
LACK, ANSWER, MINE = (Buffer(f"params:{name}", 0) for name in ("difference", "coded", "held"))


def theirs(worker: int) -> Buffer:
    return Buffer(f"params:held.{worker}", 0)


def puppet(
    *answers: Sequence[Action], pushed: tuple[str, ...] = ("push",), followed: tuple[str, ...] = ("value",)
) -> Any:
    """Worker 0 of a strategy that answers each event with the next of these, coded."""
    left = list(answers)
    return peer_of(
        CodedMessages(Puppets(lambda peer, event: list(left.pop(0)) if left else []), TopK(), pushed, followed)
    )


def test_a_push_is_encoded_with_its_residual_and_sent_in_that_form() -> None:
    peer = peer_of(SERVED, num_workers=2)
    assert tell(peer, Started(0)) == [Compute(0)]
    assert tell(peer, StepFinished(0, 3.0, None)) == [
        Encode("push", 0, CODED, G0, RESIDUAL),
        Send(2, "push", 0, 0, CODED, 3.0),
    ]


def test_what_goes_to_several_is_encoded_once() -> None:
    peer = peer_of(CodedMessages(Neighbours(elect=None), TopK(), ("gradient",)), num_workers=4)
    answer = tell(peer, StepFinished(0, 2.0, None))
    sends = [action for action in answer if isinstance(action, Send)]
    assert [action for action in answer if isinstance(action, Encode)] == [
        Encode("gradient", 0, Buffer("gradient:coded", 0), G0, Buffer("gradient:residual", 0))
    ]
    assert [send.body for send in sends] == [Buffer("gradient:coded", 0)] * len(sends)
    assert len(sends) > 1


def test_the_next_step_is_encoded_anew() -> None:
    push = [Send(1, "push", 0, 0, G0)]
    peer = puppet(push, push, push)
    assert len(tell(peer, StepFinished(0, 1.0, None))) == 2
    assert tell(peer, received(1, "word")) == [Send(1, "push", 0, 0, CODED)]
    assert len(tell(peer, StepFinished(1, 1.0, None))) == 2


def test_a_push_of_no_weight_leaves_no_traces_and_a_codec_without_feedback_keeps_nothing() -> None:
    peer = peer_of(replace(SERVED, has_velocity=True), num_workers=2)
    assert tell(peer, StepFinished(0, 0.0, None))[0] == Encode("push", 0, CODED, G0)
    casting = peer_of(replace(SERVED, codec=FP16()), num_workers=2)
    assert tell(casting, StepFinished(0, 3.0, None))[0] == Encode("push", 0, CODED, G0)


def test_a_codec_with_momentum_is_given_its_velocity() -> None:
    peer = peer_of(CodedMessages(StaleSync(), DGC(), ("push",), has_velocity=True), num_workers=2)
    assert tell(peer, StepFinished(0, 3.0, None))[0] == Encode("push", 0, CODED, G0, RESIDUAL, VELOCITY)


def test_the_first_answer_is_whole_and_the_next_is_the_difference_to_what_the_worker_has() -> None:
    peer = puppet([Send(1, "value", 1, 0, P0)], [Send(1, "value", 2, 0, P0)])
    kept, lack, code = (Buffer(f"value:{name}", 0) for name in ("held.1", "difference", "coded"))
    assert tell(peer, received(1, "push")) == [copy(kept, P0), Send(1, "value:whole", 1, 0, P0)]
    assert tell(peer, received(1, "push")) == [
        copy(lack, P0),
        add(lack, kept, -1.0),
        Encode("value", 2, code, lack),
        add(kept, code),
        Send(1, "value", 2, 0, code),
    ]


def test_each_worker_and_each_bucket_is_compared_with_its_own() -> None:
    answers = [[Send(to, "value", 1, bucket, Buffer("params", bucket))] for to, bucket in ((1, 0), (2, 0), (1, 1))]
    peer = puppet(*answers)
    kinds = [tell(peer, received(1, "push"))[-1].kind for _ in answers]
    assert kinds == ["value:whole"] * 3


def test_after_a_change_of_members_answers_are_whole_again() -> None:
    answer = [Send(1, "value", 1, 0, P0)]
    peer = puppet(answer, [], answer, answer)
    tell(peer, received(1, "push"), members(0, 1))
    assert tell(peer, received(1, "push"))[-1] == Send(1, "value:whole", 1, 0, P0)
    assert tell(peer, received(1, "push"))[-1].kind == "value"


def test_a_worker_takes_what_is_whole_adds_differences_and_its_inner_peer_sees_parameters() -> None:
    peer = peer_of(SERVED, num_workers=1)
    tell(peer, StepFinished(0, 1.0, None))
    assert tell(peer, received(1, "params:whole", 1)) == [copy(MINE, IN0), copy(P0, MINE), Compute(1)]
    tell(peer, StepFinished(1, 1.0, None))
    assert tell(peer, received(1, "params", 2)) == [add(MINE, IN0), copy(P0, MINE), Compute(2)]


def test_messages_without_a_body_and_of_other_kinds_pass() -> None:
    peer = puppet([Send(1, "word", 0, 0)], [Send(1, "value", 0, 0, None)], followed=())
    assert tell(peer, received(1, "value")) == [Send(1, "word", 0, 0)]
    assert tell(peer, bodiless(1, "value")) == [Send(1, "value", 0, 0, None)]
    assert [event for _, event in peer._inner._seen] == [received(1, "value"), bodiless(1, "value")]


def test_what_is_cast_is_encoded_and_nothing_else() -> None:
    peer = peer_of(CodedMessages(Puppets(lambda peer, event: [Send(1, "value", 3, 0, P0)]), FP16(), cast=("value",)))
    code = Buffer("value:coded", 0)
    assert tell(peer, received(1, "word")) == [Encode("value", 3, code, P0), Send(1, "value", 3, 0, code)]


def test_what_the_inner_peer_sends_again_goes_as_it_came_back() -> None:
    peer = peer_of(SERVED, num_workers=2)
    tell(peer, StepFinished(0, 3.0, None))
    assert tell(peer, returned(2, "push", weight=3.0)) == [Send(2, "push", 0, 0, IN0, 3.0)]


def test_an_answer_that_comes_back_is_sent_again_in_its_kind_and_the_next_one_is_whole() -> None:
    def resends(peer: Any, event: Event) -> list[Action] | None:
        if isinstance(event, Returned):
            return [Send(event.target, event.kind, event.clock, 0, event.body, event.weight)]
        return [Send(1, "value", 1, 0, P0)] if isinstance(event, Received) else None

    peer = peer_of(CodedMessages(Puppets(resends), TopK(), (), ("value",)))
    tell(peer, received(1, "push"))
    assert tell(peer, returned(1, "value:whole", 1)) == [Send(1, "value:whole", 1, 0, IN0)]
    assert peer._inner._seen[-1][1] == returned(1, "value", 1), "the inner peer knows nothing of wholes"
    assert tell(peer, received(1, "push"))[-1].kind == "value:whole", "it may come before the one that is sent again"


def test_an_answer_that_is_not_sent_again_makes_the_next_one_whole() -> None:
    answer = [Send(1, "value", 1, 0, P0)]
    peer = puppet(answer, [], answer)
    tell(peer, received(1, "push"))
    assert tell(peer, returned(1, "value:whole")) == []
    assert tell(peer, received(1, "push"))[-1].kind == "value:whole"


def test_a_push_of_an_earlier_step_that_is_not_sent_again_is_said_with_the_next_one() -> None:
    peer = puppet([Send(1, "push", 0, 0, G0)], [], [Combine(P0, 0.5)])
    tell(peer, StepFinished(0, 1.0, None), StepFinished(1, 1.0, None))
    assert tell(peer, returned(1, "push")) == [add(RESIDUAL, IN0), Combine(P0, 0.5)]


def test_a_push_to_several_is_said_with_the_next_one_only_if_none_of_them_hears_it() -> None:
    def pushes(clock: int, *targets: int) -> list[Action]:
        return [Send(target, "push", clock, 0, G0) for target in targets]

    peer = puppet(pushes(0, 1, 2), pushes(1, 1, 2), pushes(2, 3))
    tell(peer, *(StepFinished(step, 1.0, None) for step in range(3)))
    assert tell(peer, returned(1, "push", 0)) == []
    assert tell(peer, returned(1, "push", 1)) == []
    assert tell(peer, returned(2, "push", 0)) == [add(RESIDUAL, IN0)]
    assert tell(peer, returned(3, "push", 2)) == [add(RESIDUAL, IN0)]


def test_a_push_that_comes_back_after_it_was_sent_again_is_still_to_be_heard() -> None:
    push = [Send(1, "push", 0, 0, G0)]
    peer = puppet(push, push)
    tell(peer, StepFinished(0, 1.0, None), members(0, 1, view=1))
    assert tell(peer, returned(1, "push")) == []
    assert tell(peer, returned(1, "push")) == [add(RESIDUAL, IN0)]


def test_how_often_pushes_were_sent_is_kept_where_it_changes() -> None:
    two = [Send(target, "push", 0, 0, G0) for target in (1, 2)]
    peer = puppet(two, two, two, two[:1])
    tell(peer, *(StepFinished(step, 1.0, None) for step in range(4)))
    assert [number for _, number in peer.sent[CODED]] == [2, 1]


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_without_weight_or_feedback_nothing_goes_back(weight: float) -> None:
    codec = TopK() if not weight else FP16()
    peer = peer_of(CodedMessages(Puppets(lambda peer, event: []), codec, ("push",)))
    assert tell(peer, returned(1, "push", weight=weight)) == []


def test_it_declares_its_memory_by_role_its_kinds_and_its_codecs() -> None:
    world = World(Roles(2, 1), ONE)

    def names(recipe: Strategy, role: Role) -> list[str]:
        return [slot.name for slot in recipe.slots(role, world)]

    with_velocity = replace(SERVED, has_velocity=True)
    assert names(with_velocity, Role.WORKER) == [
        *("push:coded", "params:coded", "push:residual", "push:velocity", "params:held"),
    ]
    assert names(SERVED, Role.SERVER) == [
        *("push:coded", "params:coded", "params:difference", "params:held.0", "params:held.1")
    ]
    assert names(CodedMessages(LocalSGD(), FP16(), cast=("average",)), Role.WORKER) == ["average:coded"]
    assert SERVED.kinds() == {**StaleSync().kinds(), "params:whole": Carries.EXACT}
    assert SERVED.codecs() == {"push": TopK(), "params": TopK()}


def test_the_snapshot_is_plain() -> None:
    peer = peer_of(SERVED, num_workers=2, buckets=TWO)
    tell(peer, Started(0), StepFinished(0, 3.0, None))
    assert is_plain(peer)
    assert peer.snapshot()["coded_messages"]["known"] == []
    assert len(peer.snapshot()["coded_messages"]["encoded"]) == 2


def test_a_newcomers_first_answer_is_whole_while_others_are_told_differences_as_before() -> None:
    peer = peer_of(SERVED, 3)
    tell(peer, *(received(worker, "push") for worker in range(3)), without(4))
    tell(peer, received(0, "push", 1), received(2, "push", 1))
    assert tell(peer, came_again(4)) == [gives(5)], "what it takes over is not coded"
    answers = [tell(peer, received(worker, "push", 2))[-1] for worker in range(3)]
    assert [answer.kind for answer in answers] == ["params", "params:whole", "params"]
