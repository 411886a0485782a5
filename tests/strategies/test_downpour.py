"""Downpour SGD: facts to commands."""

from typing import Any

import pytest
from support.peers.newcomers import NEWCOMER, came_again, given, gives, handed, newcomer_of, without

from weft.core.actions import Apply, Combine, Compute, Note, Send, SetTimer
from weft.core.errors import ConfigError
from weft.core.events import MembersChanged, Returned, Started, StepFinished, TimerFired
from weft.core.names import Buffer, Carries, Result, Role, Roles, Slot
from weft.core.rules import AdaGrad
from weft.core.world import World
from weft.strategies import Downpour
from weft.testing.peers import G0, G1, IN0, IN1, ONE, P0, P1, TWO, bodiless, is_plain, peer_of, received, refusal, tell

A0, A1 = Buffer("downpour.accrued", 0), Buffer("downpour.accrued", 1)
F0, F1 = Buffer("downpour.fetched", 0), Buffer("downpour.fetched", 1)
SERVER = 3
WORLD = World(Roles(3, 1), ONE)


def test_a_worker_computes_at_once_and_a_server_waits() -> None:
    assert tell(peer_of(Downpour()), Started(0)) == [Combine(F0, 0.0, P0), Compute(0)]
    assert tell(peer_of(Downpour(), SERVER), Started(0)) == []


def test_a_worker_steps_alone_between_its_pushes_and_fetches() -> None:
    peer = peer_of(Downpour(push=2, fetch=3))
    assert tell(peer, StepFinished(0, 5.0, None)) == [Combine(A0, 1.0, G0), Apply(G0, P0), Compute(1)]


def test_a_push_carries_the_accrued_gradient_and_samples_and_starts_anew() -> None:
    peer = peer_of(Downpour(push=2, fetch=3))
    tell(peer, StepFinished(0, 5.0, None))
    assert tell(peer, StepFinished(1, 3.0, None)) == [
        Combine(A0, 1.0, G0),
        Apply(G0, P0),
        Send(SERVER, "push", 1, 0, A0, 8.0),
        Combine(A0, 0.0),
        Compute(2),
    ]
    assert peer.samples == 0.0


def test_a_fetch_follows_the_push_of_its_step_and_is_waited_for() -> None:
    peer = peer_of(Downpour(servers=2), buckets=TWO)
    assert tell(peer, StepFinished(0, 1.0, None)) == [
        Combine(A0, 1.0, G0),
        Combine(A1, 1.0, G1),
        Apply(G0, P0),
        Apply(G1, P1),
        Send(3, "push", 0, 0, A0, 1.0),
        Combine(A0, 0.0),
        Send(4, "push", 0, 1, A1, 1.0),
        Combine(A1, 0.0),
        Send(3, "fetch", 1, 0),
        Send(4, "fetch", 1, 1),
    ]
    assert peer.waiting_for() == "the parameters it fetched before step 1 (2 buckets to go)"
    assert tell(peer, received(4, "params", 1, bucket=1)) == [Combine(P1, 0.0, IN1), Combine(F1, 0.0, IN1)]
    assert tell(peer, received(3, "params", 1)) == [Combine(P0, 0.0, IN0), Combine(F0, 0.0, IN0), Compute(1)]
    assert peer.waiting_for() == "the user's iteration"


def test_a_server_answers_a_fetch_at_once() -> None:
    server = peer_of(Downpour(), SERVER)
    tell(server, received(1, "push"))
    assert tell(server, bodiless(2, "fetch", 7)) == [Send(2, "params", 1, 0, P0)]
    assert server.waiting_for() == "pushes and fetches"


def test_a_server_applies_a_push_by_its_share_and_notes_its_age() -> None:
    server = peer_of(Downpour(), 2, num_workers=2)
    assert tell(server, received(0, "push", weight=6.0)) == [Note("staleness", 0), Apply(IN0, P0, scale=6 / 12)]
    assert tell(server, received(1, "push", weight=2.0)) == [Note("staleness", 1), Apply(IN0, P0, scale=2 / 8)]
    tell(server, bodiless(0, "fetch"))
    assert tell(server, received(0, "push", 1, weight=6.0)) == [Note("staleness", 0), Apply(IN0, P0, scale=6 / 8)]


def test_scale_sum_does_not_divide_by_the_number_of_workers() -> None:
    server = peer_of(Downpour(scale="sum"), 2, num_workers=2)
    tell(server, received(0, "push", weight=6.0))
    assert tell(server, received(1, "push", weight=2.0))[1] == Apply(IN0, P0, scale=2 / 4)


def test_samples_of_nobody_have_no_share() -> None:
    server = peer_of(Downpour(), SERVER)
    assert tell(server, received(0, "push", weight=0.0))[1] == Apply(IN0, P0, scale=0.0)


def changed(*members: int) -> MembersChanged:
    return MembersChanged(1, members, "somebody else")


def test_a_worker_fetches_again_what_did_not_come_before_members_changed() -> None:
    peer = peer_of(Downpour(), buckets=TWO)
    assert tell(peer, changed(0, 1, SERVER)) == []
    tell(peer, StepFinished(0, 1.0, None), received(SERVER, "params", 1, bucket=1))
    assert tell(peer, changed(0, 1, SERVER)) == [SetTimer("fetch", 0.0)]
    assert tell(peer, TimerFired("fetch")) == [Send(SERVER, "fetch", 1, 0)]


def test_a_push_that_did_not_arrive_before_members_changed_is_sent_again() -> None:
    peer = peer_of(Downpour(fetch=9))
    tell(peer, StepFinished(0, 5.0, None), changed(0, 1, SERVER))
    back = Returned(SERVER, "push", 0, 0, IN0, 5.0, None, 0)
    assert tell(peer, back) == [Send(SERVER, "push", 0, 0, IN0, 5.0)]
    assert tell(peer, Returned(SERVER, "fetch", 1, 0, None, 1.0, None, 0)) == []
    assert tell(peer, Returned(SERVER, "fetch", 1, 0, None, 1.0, None, 1)) == [Send(SERVER, "fetch", 1, 0)]


def test_a_share_is_of_those_who_are_left() -> None:
    server = peer_of(Downpour(), SERVER)
    tell(server, received(0, "push", weight=6.0), received(1, "push", weight=2.0), changed(1, 2, SERVER))
    assert tell(server, received(1, "push", 1, weight=2.0))[1] == Apply(IN0, P0, scale=2 / 4)


def test_a_moved_server_gets_what_was_fetched_last_and_not_the_workers_own_steps() -> None:
    peer = peer_of(Downpour(fetch=2))
    tell(peer, StepFinished(0, 1.0, None))
    assert tell(peer, bodiless(SERVER, "ask")) == [Send(SERVER, "copy", 0, 0, F0)]


def test_a_moved_server_answers_fetches_when_it_has_the_copies_and_cannot_take_pushes_before() -> None:
    server = peer_of(Downpour(), SERVER)
    assert tell(server, Started(1), changed(0, 1, SERVER)) == [Send(0, "ask", 0, 0), Send(1, "ask", 0, 0)]
    assert tell(server, bodiless(1, "fetch", 3)) == []
    assert tell(server, received(0, "push", 3)) == [Note("lost_updates", 1.0)]
    assert tell(server, received(0, "copy", 8)) == [Combine(P0, 0.0, IN0)]
    assert tell(server, received(1, "copy", 6)) == [Send(1, "params", 8, 0, P0)]
    assert tell(server, received(0, "push", 4))[0] == Note("staleness", 0)


def test_a_rule_of_the_servers_own_is_named() -> None:
    recipe = Downpour(server=AdaGrad(0.1))
    assert recipe.rules(WORLD) == {"server": AdaGrad(0.1)}
    assert tell(peer_of(recipe, 1, num_workers=1), received(0, "push"))[1] == Apply(IN0, P0, "server", 1.0)
    assert Downpour().rules(WORLD) == {}


def test_a_worker_refuses_parameters_that_it_did_not_fetch() -> None:
    expected = "worker 0 received '{}' (clock 1, bucket 0) from server 0, which DownpourWorker does not expect now."
    peer = peer_of(Downpour())
    assert refusal(peer, received(SERVER, "params", 1)) == expected.format("params")
    tell(peer, StepFinished(0, 1.0, None))
    assert refusal(peer, received(SERVER, "push", 1)) == expected.format("push")
    assert refusal(peer, bodiless(SERVER, "params", 1)) == expected.format("params")


def test_a_server_refuses_unknown_kinds_and_buckets_of_others() -> None:
    expected = "server 0 received '{}' (clock 0, bucket {}) from worker 1, which DownpourServer does not expect now."
    server = peer_of(Downpour(servers=2), SERVER, buckets=TWO)
    assert refusal(server, received(1, "push", bucket=1)) == expected.format("push", 1)
    assert refusal(server, bodiless(1, "fetch", bucket=1)) == expected.format("fetch", 1)
    assert refusal(server, received(1, "params")) == expected.format("params", 0)
    assert refusal(server, bodiless(1, "push")) == expected.format("push", 0)


def test_snapshots_are_plain() -> None:
    server, worker = peer_of(Downpour(), SERVER), peer_of(Downpour(push=2))
    tell(server, received(1, "push", weight=4.0), bodiless(2, "fetch"))
    tell(worker, StepFinished(0, 3.0, None))
    snapshot = server.snapshot()
    assert (snapshot["versions"], snapshot["fetched"]) == ({"0": 1}, {"0": [0, 0, 1]})
    assert worker.snapshot() == {"step": 1, "samples": 3.0, "missing": [0], "versions": {"0": 0}}
    assert is_plain(server)
    assert is_plain(worker)


@pytest.mark.parametrize("name", ["push", "fetch"])
def test_pushes_and_fetches_come_after_a_step_or_more(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Downpour(**dict[str, Any]({name: 0}))
    assert str(caught.value) == (f"{name} is 0, but it counts steps.\n  Use 'downpour({name}=1)' for every step.")


def test_the_scale_is_mean_or_sum() -> None:
    with pytest.raises(ConfigError) as caught:
        Downpour(scale="max")
    assert str(caught.value) == "scale is 'max', but it is 'mean' or 'sum'.\n  Use 'downpour(scale=mean)'."


def test_at_least_one_server_is_needed() -> None:
    with pytest.raises(ConfigError) as caught:
        Downpour(servers=-1)
    assert str(caught.value) == (
        "servers is -1, but the parameters must live on at least 1.\n  Use 'downpour(servers=1)'."
    )


def test_workers_need_memory_for_what_accrues() -> None:
    world = World(Roles(2, 1), ONE)
    assert Downpour().slots(Role.WORKER, world) == (Slot("downpour.accrued"), Slot("downpour.fetched"))
    assert Downpour().slots(Role.SERVER, world) == ()
    assert Downpour(servers=2).roles(4) == Roles(4, 2)
    told = Downpour().kinds()
    assert (told["push"], told["fetch"], told["params"]) == (Carries.GRADIENT, Carries.NOTHING, Carries.COPY)
    assert Downpour().result is Result.SERVERS


def test_a_newcomer_has_fetched_what_it_is_given() -> None:
    peer = newcomer_of(Downpour(push=2, fetch=2), TWO)
    assert tell(peer, given(SERVER, 6)) == [Combine(P0, 0.0, IN0), Combine(F0, 0.0, IN0)]
    tell(peer, given(SERVER, 7, 1))
    assert tell(peer, handed(0, step=3)) == [Compute(3)]
    assert peer.versions == {0: 6, 1: 7}
    assert Send(SERVER, "push", 3, 0, A0, 2.0) in tell(peer, StepFinished(3, 2.0, None))


def test_a_server_knows_what_it_gave_to_a_newcomer() -> None:
    server = peer_of(Downpour(), SERVER)
    tell(server, received(NEWCOMER, "push"), received(0, "push"), without(4))
    assert tell(server, came_again(4)) == [gives(2)]
    assert tell(server, received(NEWCOMER, "push"))[0] == Note("staleness", 0)
