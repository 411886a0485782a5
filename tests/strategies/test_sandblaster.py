"""Sandblaster L-BFGS: facts to commands of its workers."""

from typing import Any

import pytest
from support.peers.newcomers import NEWCOMER, given, newcomer_of
from support.peers.newcomers import handed as said

from weft.core.actions import Combine, Compute, Note, Send
from weft.core.errors import ConfigError
from weft.core.events import MembersChanged, PortionAsked, Received, Returned, Started, StepFinished
from weft.core.names import Bucket, Buffer, Carries, Result, Role, Roles, Slot
from weft.core.rules import LBFGS
from weft.core.world import World
from weft.strategies import Sandblaster
from weft.testing.peers import G0, G1, IN0, IN1, ONE, P0, P1, TWO, bodiless, is_plain, peer_of, received, refusal, tell

COORDINATOR = 3
C0, C1 = Buffer("sandblaster.coming", 0), Buffer("sandblaster.coming", 1)
ASKED = Send(COORDINATOR, "ask", 0, 0, data={"portions": 5})


def worker(buckets: tuple[Bucket, ...] = ONE) -> Any:
    peer = peer_of(Sandblaster(), buckets=buckets)
    assert tell(peer, Started(0)) == [Compute(0)]
    return peer


def handed(portion: int, clock: int = 0) -> Received:
    return received(COORDINATOR, "portion", clock, data={"portion": portion})


def parameters(clock: int, bucket: int = 0) -> Received:
    return received(COORDINATOR, "params", clock, bucket)


def result(portion: int | None, samples: float, clock: int = 0) -> Send:
    data = None if portion is None else {"portion": portion}
    return Send(COORDINATOR, "result", clock, 0, G0, samples, data)


def test_a_share_asks_for_a_portion_and_takes_the_one_it_is_handed() -> None:
    peer = worker()
    assert tell(peer, PortionAsked(0, 5)) == [ASKED]
    assert peer.waiting_for() == "a portion of pass 0, or its end"
    assert tell(peer, handed(3)) == [Compute(0, 3)]
    assert peer.waiting_for() == "the user's iteration"


def test_a_portions_gradient_is_sent_and_the_script_goes_on_at_once() -> None:
    peer = worker(TWO)
    tell(peer, PortionAsked(0, 5), handed(3))
    assert tell(peer, StepFinished(0, 4.0, 0.5)) == [
        Send(COORDINATOR, "result", 0, 0, G0, 4.0, {"portion": 3}),
        Send(COORDINATOR, "result", 0, 1, G1, 4.0, {"portion": 3}),
        Compute(1),
    ]
    assert tell(peer, PortionAsked(0, 5)) == [ASKED]
    assert tell(peer, handed(1)) == [Compute(1, 1)]


def test_a_share_is_over_when_the_next_parameters_are_whole() -> None:
    peer = worker(TWO)
    tell(peer, PortionAsked(0, 5))
    assert tell(peer, parameters(1)) == [Combine(C0, 0.0, IN0)]
    assert peer.waiting_for() == "the parameters after pass 0 (1 buckets to go)"
    assert tell(peer, parameters(1, bucket=1)) == [Combine(P0, 0.0, C0), Combine(P1, 0.0, IN1), Compute(0)]
    assert tell(peer, PortionAsked(1, 5)) == [Send(COORDINATOR, "ask", 1, 0, data={"portions": 5})]


def test_parameters_that_come_while_a_copy_is_computed_end_the_share_after_its_step_which_is_dropped() -> None:
    peer = worker()
    tell(peer, PortionAsked(0, 5), handed(3))
    assert tell(peer, parameters(1)) == [Combine(P0, 0.0, IN0)]
    assert tell(peer, StepFinished(0, 4.0, None)) == [Note("dropped", 1.0), Compute(1)]
    assert tell(peer, PortionAsked(0, 5)) == [Compute(1)]


def test_a_worker_that_fell_behind_goes_through_the_passes_that_are_over_without_asking() -> None:
    peer = worker()
    tell(peer, PortionAsked(0, 5), handed(3), parameters(1), parameters(2), StepFinished(0, 4.0, None))
    assert tell(peer, PortionAsked(0, 5)) == [Compute(1)]
    assert tell(peer, PortionAsked(1, 5)) == [Compute(1)]
    assert tell(peer, PortionAsked(2, 5)) == [Send(COORDINATOR, "ask", 2, 0, data={"portions": 5})]


def test_a_portion_that_led_to_no_step_is_told_before_the_next_is_asked_for() -> None:
    peer = worker()
    tell(peer, PortionAsked(0, 5), handed(3))
    assert tell(peer, PortionAsked(0, 5)) == [Send(COORDINATOR, "skipped", 0, 0, data={"portion": 3}), ASKED]


def test_a_batch_of_its_own_is_brought_to_the_pass_and_its_end_is_waited_for() -> None:
    peer = worker()
    assert tell(peer, StepFinished(0, 4.0, None)) == [result(None, 4.0)]
    assert peer.waiting_for() == "the batches of all workers for pass 0"
    assert tell(peer, parameters(1)) == [Combine(P0, 0.0, IN0), Compute(1)]
    assert tell(peer, StepFinished(1, 2.0, None)) == [result(None, 2.0, clock=1)]


def test_a_step_on_no_portion_in_the_midst_of_a_share_is_refused() -> None:
    peer = worker()
    tell(peer, PortionAsked(0, 5), handed(3), StepFinished(0, 4.0, None))
    with pytest.raises(ConfigError) as refused:
        tell(peer, StepFinished(1, 4.0, None))
    assert str(refused.value) == (
        "a step was made on no portion of the data, in the midst of a share.\n"
        "  Make one step for each batch of worker.share(...), and let its loop run to the end."
    )


def test_a_share_that_begins_before_the_last_one_is_over_is_refused() -> None:
    peer = worker()
    tell(peer, PortionAsked(0, 5), handed(3), StepFinished(0, 4.0, None))
    with pytest.raises(ConfigError) as refused:
        tell(peer, PortionAsked(1, 5))
    assert str(refused.value) == (
        "the script began to share data again before its last share was over, so that pass would never end.\n"
        "  Let every loop over worker.share(...) run to its end."
    )


def test_what_a_lost_worker_overtook_is_sent_again_and_nothing_else_happens() -> None:
    peer = worker()
    tell(peer, PortionAsked(0, 5))
    assert tell(peer, MembersChanged(1, (0, 1, 3), "lost worker 2")) == []
    assert tell(peer, Returned(COORDINATOR, "ask", 0, 0, None, 1.0, {"portions": 5}, view=0)) == [ASKED]
    assert tell(peer, Returned(COORDINATOR, "ask", 0, 0, None, 1.0, {"portions": 5}, view=1)) == [ASKED]


MOVED = bodiless(COORDINATOR, "moved")


def test_a_coordinator_that_was_moved_is_told_which_parameters_are_here_and_sent_them_when_it_asks() -> None:
    peer = worker(TWO)
    tell(peer, PortionAsked(0, 5), parameters(1), parameters(1, bucket=1), PortionAsked(1, 5))
    assert tell(peer, MOVED) == [Send(COORDINATOR, "have", 1, 0)]
    assert tell(peer, bodiless(COORDINATOR, "fetch", 1)) == [
        Send(COORDINATOR, "kept", 1, 0, P0),
        Send(COORDINATOR, "kept", 1, 1, P1),
    ]


def test_parameters_that_were_not_whole_when_the_coordinator_moved_never_came() -> None:
    peer = worker(TWO)
    tell(peer, PortionAsked(0, 5), parameters(1))
    assert tell(peer, MOVED) == [Send(COORDINATOR, "have", 0, 0)]
    assert tell(peer, parameters(1, bucket=1)) == [Combine(C1, 0.0, IN1)]
    assert tell(peer, parameters(1)) == [Combine(P1, 0.0, C1), Combine(P0, 0.0, IN0), Compute(0)]


def test_when_the_pass_begins_again_a_share_asks_again_and_an_own_batch_is_brought_again() -> None:
    asking, bringing, computing = worker(), worker(), worker()
    tell(asking, PortionAsked(0, 5), MOVED)
    assert tell(asking, parameters(0)) == [Combine(P0, 0.0, IN0), ASKED]
    tell(bringing, StepFinished(0, 4.0, None), MOVED)
    assert tell(bringing, parameters(0)) == [Combine(P0, 0.0, IN0), result(None, 4.0)]
    tell(computing, PortionAsked(0, 5), handed(3), MOVED)
    assert tell(computing, parameters(0)) == [Combine(P0, 0.0, IN0)]


def test_a_worker_refuses_what_it_did_not_ask_for() -> None:
    said = "worker 0 received '{}' (clock {}, bucket 0) from server 0, which SandblasterWorker does not expect now."
    peer = worker()
    assert refusal(peer, handed(3)) == said.format("portion", 0)
    tell(peer, PortionAsked(0, 5))
    assert refusal(peer, handed(3, clock=1)) == said.format("portion", 1)
    assert refusal(peer, bodiless(COORDINATOR, "params", 1)) == said.format("params", 1)
    assert refusal(peer, bodiless(COORDINATOR, "fetch", 1)) == said.format("fetch", 1)
    tell(peer, parameters(1))
    assert refusal(peer, parameters(0)) == said.format("params", 0)


def test_its_snapshot_is_plain() -> None:
    peer = worker(TWO)
    tell(peer, PortionAsked(0, 5), handed(3), parameters(1))
    assert peer.snapshot() == {
        "step": 0,
        "clock": 0,
        "version": 0,
        "share": 0,
        "asked": None,
        "portion": 3,
        "own": None,
        "coming": 1,
        "missing": [1],
    }
    assert is_plain(peer)


def test_it_wants_one_server_and_memory_for_what_is_summed_and_what_comes() -> None:
    world = World(Roles(3, 1), ONE)
    recipe = Sandblaster(lr=0.5, history=4)
    assert recipe.roles(3) == Roles(3, 1)
    assert recipe.slots(Role.WORKER, world) == (Slot("sandblaster.coming"),)
    assert recipe.slots(Role.SERVER, world) == (Slot("sandblaster.sum"),)
    assert recipe.rules(world) == {"lbfgs": LBFGS(0.5, 4)}
    assert recipe.result is Result.SERVERS
    assert recipe.deals_portions
    assert recipe.kinds() == {
        **dict.fromkeys(("ask", "portion", "skipped", "moved", "have", "fetch"), Carries.NOTHING),
        **dict.fromkeys(("result", "params", "kept"), Carries.EXACT),
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": -1.0}, "lr is -1.0, but a learning rate is at least 0.\n  Write e.g. lr=0.1."),
        ({"history": 0}, "history is 0, but L-BFGS remembers at least 1 step.\n  Write e.g. history=10."),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Sandblaster(**options)
    assert str(refused.value) == message


def test_a_bucket_that_comes_twice_is_not_mixed_with_those_of_the_next_version() -> None:
    peer = worker(TWO)
    tell(peer, parameters(1, 0), parameters(1, 1), parameters(1, 1))
    assert (peer.version, peer.missing) == (1, {0})
    tell(peer, parameters(2, 0))
    assert (peer.version, peer.missing) == (1, {1})
    tell(peer, parameters(2, 1))
    assert (peer.version, peer.missing) == (2, set())


def test_a_newcomer_begins_with_the_pass_that_is_under_way_wherever_its_sponsor_is() -> None:
    peer = newcomer_of(Sandblaster(), TWO)
    tell(peer, given(COORDINATOR, 4), said(0, step=19))
    assert tell(peer, given(COORDINATOR, 4, 1)) == [Combine(P1, 0.0, IN1), Compute(4)]
    assert tell(peer, PortionAsked(4, 5)) == [Send(COORDINATOR, "ask", 4, 0, data={"portions": 5})]
    assert tell(peer, handed(3, clock=4)) == [Compute(4, 3)]
    assert tell(peer, received(COORDINATOR, "moved", data={})) == [Send(COORDINATOR, "have", 4, 0)]


def test_what_a_newcomer_that_left_did_not_get_is_not_sent_again() -> None:
    peer = worker()
    tell(peer, MembersChanged(6, (0, 2, COORDINATOR), "lost worker 1"))
    assert tell(peer, Returned(NEWCOMER, "welcome", 0, 0, None, 1.0, {"step": 0}, 5)) == []
