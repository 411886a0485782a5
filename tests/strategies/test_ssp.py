"""Parameter server under a staleness bound: facts to commands."""

import pytest
from support.peers.newcomers import NEWCOMER, came_again, gives, without

from weft.core.actions import Action, Apply, Combine, Compute, Note, Send
from weft.core.errors import ConfigError
from weft.core.events import MembersChanged, Received, Started, StepFinished
from weft.core.names import Buffer, Carries, Result, Role, Roles, Slot
from weft.core.world import World
from weft.strategies import ParameterServer, StaleSync
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
    peer_of,
    received,
    refusal,
    tell,
)

SUM0 = Buffer("closing.sum", 0)
SERVER = 3


def push(worker: int, step: int, samples: float = 1.0) -> Received:
    return received(worker, "push", step, weight=samples)


def answer(worker: int, version: int) -> Action:
    return Send(worker, "params", version, 0, P0)


def test_a_worker_computes_at_once_and_a_server_waits() -> None:
    assert tell(peer_of(StaleSync()), Started(0)) == [Compute(0)]
    assert tell(peer_of(StaleSync(), SERVER), Started(0)) == []


def test_a_worker_pushes_each_bucket_to_its_server_with_its_samples() -> None:
    peer = peer_of(StaleSync(servers=2), me=1, buckets=TWO)
    assert tell(peer, StepFinished(4, 6.0, None)) == [
        Send(3, "push", 4, 0, G0, 6.0),
        Send(4, "push", 4, 1, G1, 6.0),
    ]


def test_a_worker_computes_when_its_last_bucket_came() -> None:
    peer = peer_of(StaleSync(), buckets=TWO)
    tell(peer, StepFinished(0, 1.0, None))
    assert tell(peer, received(SERVER, "params", 1, bucket=1)) == [Combine(P1, 0.0, IN1)]
    assert tell(peer, received(SERVER, "params", 1)) == [Combine(P0, 0.0, IN0), Compute(1)]


def test_state_is_the_workers_own() -> None:
    peer = peer_of(StaleSync(), buckets=WITH_STATE)
    assert tell(peer, StepFinished(0, 1.0, None)) == [Send(SERVER, "push", 0, 0, G0, 1.0)]
    assert tell(peer, received(SERVER, "params", 1)) == [Combine(P0, 0.0, IN0), Compute(1)]


def test_a_worker_says_which_parameters_it_waits_for() -> None:
    peer = peer_of(StaleSync(), buckets=TWO)
    assert peer.waiting_for() == "the user's iteration"
    tell(peer, StepFinished(0, 1.0, None), received(SERVER, "params", 1))
    assert peer.waiting_for() == "the parameters of step 1 from the servers (1 buckets to go)"


def test_server_parks_a_pull_until_every_worker_has_pushed_the_needed_step() -> None:
    server = peer_of(StaleSync(staleness=1), SERVER, num_workers=3)
    assert tell(server, push(0, 0)) == [Note("staleness", 0), Apply(IN0, P0, scale=1 / 3), answer(0, 1)]
    assert tell(server, push(0, 1)) == [Note("staleness", 1), Apply(IN0, P0, scale=1 / 3)]
    assert tell(server, push(1, 0)) == [Note("staleness", 0), Apply(IN0, P0, scale=1 / 3), answer(1, 3)]
    assert server.waiting_for() == "worker 2 to push step 0 of bucket 0; 1 pulls are parked"
    assert tell(server, push(2, 0)) == [
        Note("staleness", 0),
        Apply(IN0, P0, scale=1 / 3),
        answer(0, 4),
        answer(2, 4),
    ]
    assert server.waiting_for() == "pushes"


def test_without_a_bound_every_pull_is_answered_at_once() -> None:
    server = peer_of(StaleSync(staleness=None), SERVER)
    for step in range(5):
        assert tell(server, push(0, step)) == [
            Note("staleness", step),
            Apply(IN0, P0, scale=1 / 3),
            answer(0, step + 1),
        ]


def test_a_push_is_scaled_by_its_share_of_the_samples_of_the_last_full_step() -> None:
    server = peer_of(StaleSync(staleness=3), 2, num_workers=2)
    assert tell(server, push(0, 0, 6.0))[1] == Apply(IN0, P0, scale=1 / 2)
    assert tell(server, push(1, 0, 2.0))[1] == Apply(IN0, P0, scale=2 / 8)
    assert tell(server, push(0, 1, 4.0))[1] == Apply(IN0, P0, scale=4 / 8)
    assert tell(server, push(1, 1, 6.0))[1] == Apply(IN0, P0, scale=6 / 10)


def test_a_lost_worker_is_no_longer_waited_for() -> None:
    server = peer_of(StaleSync(staleness=1), SERVER)
    tell(server, push(0, 0), push(0, 1), push(1, 0))
    assert tell(server, MembersChanged(1, (0, 1, SERVER), "lost worker 2")) == []
    assert tell(server, push(0, 1)) == [answer(0, 3)]
    assert tell(server, push(1, 1))[:2] == [Note("staleness", 0), Apply(IN0, P0, scale=1 / 2)]


def test_a_repeated_pull_waits_like_the_first() -> None:
    server = peer_of(StaleSync(staleness=1), SERVER)
    tell(server, push(0, 0), push(0, 1), push(1, 0), MembersChanged(1, (0, 1, 2, SERVER), "moved server 7"))
    assert tell(server, push(0, 1)) == []
    assert tell(server, push(2, 0))[2:] == [answer(0, 4), answer(2, 4)]


def test_the_share_of_a_push_is_of_those_who_are_left() -> None:
    server = peer_of(StaleSync(), SERVER)
    tell(server, push(0, 0, 6.0), push(1, 0, 2.0), MembersChanged(1, (0, 1, SERVER), "finished worker 2"))
    assert tell(server, push(1, 1, 2.0))[1] == Apply(IN0, P0, scale=2 / 8)


def test_when_the_last_worker_has_left_nobody_is_waited_for() -> None:
    server = peer_of(StaleSync(), SERVER)
    assert tell(server, MembersChanged(1, (SERVER,), "finished worker 2")) == []
    assert server.waiting_for() == "pushes"


def test_a_rejected_push_is_answered_and_counts_for_the_bound() -> None:
    server = peer_of(StaleSync(staleness=2, late="reject", max_age=0), SERVER)
    tell(server, push(0, 0), push(1, 0))
    assert tell(server, push(2, 0)) == [
        Note("staleness", 0),
        Note("age", 1),
        Note("rejected", 1.0),
        answer(2, 1),
    ]
    assert server.shards[0].slowest == 1


def test_the_age_of_a_push_is_the_number_of_updates_since_the_answer() -> None:
    server = peer_of(StaleSync(late="damp"), SERVER)
    ages = [tell(server, push(worker, step))[1] for worker, step in ((0, 0), (0, 1), (1, 0), (0, 2), (0, 3), (1, 1))]
    assert ages == [Note("age", age) for age in (0, 0, 2, 1, 0, 2)]


def test_to_compensate_a_server_keeps_what_it_told_each_worker() -> None:
    server = peer_of(StaleSync(late="compensate"), 2, num_workers=2)
    then0, then1 = Buffer("then.0", 0), Buffer("then.1", 0)
    assert tell(server, Started(0)) == [Combine(then0, 0.0, P0), Combine(then1, 0.0, P0)]
    assert tell(server, push(0, 0))[1:] == [
        Note("age", 0),
        Apply(IN0, P0, scale=1 / 2),
        Combine(then0, 0.0, P0),
        answer(0, 1),
    ]


def test_a_moved_server_learns_what_each_worker_computes_on() -> None:
    server = peer_of(StaleSync(late="compensate"), 2, num_workers=2)
    assert tell(server, Started(1)) == []
    tell(server, MembersChanged(1, (0, 1, 2), "moved server 0"))
    told = {"pushed": 3, "unanswered": False}
    assert tell(server, Received(0, "copy", 7, 0, IN0, 1.0, told)) == [
        Combine(P0, 0.0, IN0),
        Combine(Buffer("then.0", 0), 0.0, IN0),
    ]
    assert tell(server, Received(1, "copy", 5, 0, IN0, 1.0, told)) == [Combine(Buffer("then.1", 0), 0.0, IN0)]
    assert tell(server, push(1, 3))[:2] == [Note("staleness", 0), Note("age", 2)]


def test_late_rules_that_contradict_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"^late is 'damp', but with a staleness of 0 no gradient is ever late"):
        ParameterServer(late="damp")


def test_samples_of_nobody_have_no_share() -> None:
    server = peer_of(StaleSync(), 1, num_workers=1)
    assert tell(server, push(0, 0, 0.0)) == [Note("staleness", 0), Apply(IN0, P0, scale=0.0), answer(0, 0)]


def test_bulk_synchronous_sums_the_weighted_pushes_and_applies_once() -> None:
    server = peer_of(ParameterServer(), 2, num_workers=2)
    for step in (0, 1):
        assert tell(server, push(1, step, 6.0)) == [Combine(SUM0, 0.0, IN0, 6.0)]
        assert tell(server, push(0, step, 2.0)) == [
            Combine(SUM0, 1.0, IN0, 2.0),
            Note("staleness", 0),
            Note("staleness", 0),
            Combine(SUM0, 1 / 8),
            Apply(SUM0, P0),
            answer(1, step + 1),
            answer(0, step + 1),
        ]


def test_bulk_synchronous_applies_nothing_when_nobody_had_samples() -> None:
    server = peer_of(ParameterServer(), 1, num_workers=1)
    assert tell(server, push(0, 0, 0.0)) == [Combine(SUM0, 0.0, IN0, 0.0), Note("staleness", 0), answer(0, 1)]


def test_a_server_keeps_its_own_buckets_only() -> None:
    servers = [peer_of(StaleSync(servers=3), me, num_workers=1, buckets=TWO) for me in (1, 2, 3)]
    answers = [tell(server, received(0, "push", bucket=b))[-1] for b, server in enumerate(servers[:2])]
    assert answers == [Send(0, "params", 1, 0, P0), Send(0, "params", 1, 1, P1)]
    assert servers[2].waiting_for() == "pushes"


def test_a_worker_refuses_what_it_did_not_ask_for() -> None:
    expected = "worker 0 received '{}' (clock {}, bucket 0) from server 0, which ShardWorker does not expect now."
    peer = peer_of(StaleSync())
    assert refusal(peer, received(SERVER, "params", 0)) == expected.format("params", 0)
    tell(peer, StepFinished(0, 1.0, None), received(SERVER, "params", 3), StepFinished(1, 1.0, None))
    assert refusal(peer, received(SERVER, "push", 3)) == expected.format("push", 3)
    assert refusal(peer, received(SERVER, "params", 2)) == expected.format("params", 2)
    assert refusal(peer, bodiless(SERVER, "params", 4)) == expected.format("params", 4)


def test_a_server_refuses_steps_out_of_order_and_buckets_of_others() -> None:
    expected = "server 0 received '{}' (clock {}, bucket {}) from worker 1, which StaleSyncServer does not expect now."
    server = peer_of(StaleSync(servers=2), SERVER, buckets=TWO)
    assert refusal(server, push(1, 1)) == expected.format("push", 1, 0)
    assert refusal(server, received(1, "push", 0, bucket=1)) == expected.format("push", 0, 1)
    assert refusal(server, received(1, "params")) == expected.format("params", 0, 0)
    assert refusal(server, bodiless(1, "push")) == expected.format("push", 0, 0)


def test_snapshots_are_plain() -> None:
    server, worker = peer_of(StaleSync(staleness=1), SERVER), peer_of(StaleSync())
    tell(server, push(0, 0, 2.0), push(0, 1, 2.0))
    tell(worker, StepFinished(0, 1.0, None))
    shard = server.snapshot()["shards"]["0"]
    assert (shard["pushed"], shard["parked"]) == ({"0": 2, "1": 0, "2": 0}, [[0, 2]])
    assert (worker.snapshot()["step"], worker.snapshot()["missing"]) == (1, [0])
    assert is_plain(server)
    assert is_plain(worker)


def test_a_negative_staleness_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        StaleSync(staleness=-1)
    assert str(caught.value) == (
        "staleness is -1, but a worker cannot be less than 0 steps ahead.\n"
        "  Use 'ssp(staleness=0)' to stay in step, or 'ssp(staleness=None)' never to wait."
    )


def test_at_least_one_server_is_needed() -> None:
    with pytest.raises(ConfigError) as caught:
        StaleSync(servers=0)
    assert str(caught.value) == ("servers is 0, but the parameters must live on at least 1.\n  Use 'ssp(servers=1)'.")


def test_ps_is_ssp_with_staleness_0() -> None:
    assert ParameterServer().staleness == 0
    assert ParameterServer(staleness=2).staleness == 2
    assert StaleSync().staleness == 3


def test_it_needs_servers_and_memory_for_a_sum_only_when_bulk_synchronous() -> None:
    assert StaleSync(servers=2).roles(5) == Roles(5, 2)
    world = World(Roles(2, 1), ONE)
    assert ParameterServer().slots(Role.SERVER, world) == (Slot("closing.sum"),)
    assert ParameterServer().slots(Role.WORKER, world) == StaleSync().slots(Role.SERVER, world) == ()
    carrying = {kind: carries for kind, carries in StaleSync().kinds().items() if carries is not Carries.NOTHING}
    assert carrying == {"push": Carries.GRADIENT, "params": Carries.COPY, "copy": Carries.EXACT}
    assert set(StaleSync().kinds()) < set(ParameterServer().kinds())
    assert StaleSync().result is Result.SERVERS


def test_a_newcomer_is_counted_from_the_step_of_the_lowest_other_worker() -> None:
    server = peer_of(StaleSync(staleness=1), SERVER)
    tell(server, without(4), *(push(worker, step) for step in range(3) for worker in (0, 2)))
    assert tell(server, came_again(4)) == [gives(6)]
    shard = server.shards[0]
    assert (shard.pushed, shard.seen[NEWCOMER]) == ({0: 3, 2: 3, NEWCOMER: 3}, 6)
    tell(server, push(0, 3))
    assert tell(server, push(0, 4))[-1] == Apply(IN0, P0, scale=1 / 2), "it waits for the newcomer's step 3"
    tell(server, push(2, 3))
    assert tell(server, push(NEWCOMER, 3))[-2:] == [answer(0, 10), answer(NEWCOMER, 10)]


def test_a_newcomers_samples_stand_in_for_those_of_the_worker_in_whose_place_it_comes() -> None:
    server = peer_of(StaleSync(staleness=None), SERVER)
    tell(server, *(push(worker, 0, 2.0) for worker in range(3)), push(NEWCOMER, 1, 9.0), push(0, 1, 2.0))
    tell(server, without(4), came_again(4))
    assert server.shards[0].pushed == {0: 2, NEWCOMER: 2, 2: 1}, "step 1 is whole without it"
    assert tell(server, push(2, 1, 2.0))[1] == Apply(IN0, P0, scale=2 / 13)
    ahead = peer_of(StaleSync(staleness=None), SERVER)
    tell(ahead, *(push(worker, 0, 2.0) for worker in range(3)), push(NEWCOMER, 1, 9.0))
    tell(ahead, without(4), came_again(4), push(0, 1, 2.0), push(2, 1, 2.0))
    assert tell(ahead, push(NEWCOMER, 1, 4.0))[1] == Apply(IN0, P0, scale=4 / 8)
