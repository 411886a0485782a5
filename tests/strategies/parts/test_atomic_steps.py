"""Steps that close on all servers at once, told by the bulk-synchronous server."""

import pytest
from support.peers.two_servers import (
    BOTH,
    FIRST,
    NOBODY,
    OTHER,
    SUM0,
    SUM1,
    answers,
    applied,
    changed,
    push,
    said,
    server_of,
    whole,
)

from weft.core.actions import Apply, Combine, Compute, Note, Send
from weft.core.events import MembersChanged, Started, StepFinished
from weft.strategies import ParameterServer
from weft.strategies.parts.atomic_steps import named, workers_of
from weft.testing.peers import G1, IN0, IN1, P0, P1, TWO, bodiless, is_plain, peer_of, received, refusal, tell


@pytest.mark.parametrize("workers", [set(), {0}, {3, 5}, set(range(1024))])
def test_workers_are_named_by_bits(workers: set[int]) -> None:
    assert workers_of(named(workers)) == workers
    assert len(named(workers)) <= 256


def test_a_worker_says_on_which_version_it_computed() -> None:
    peer = peer_of(ParameterServer(servers=2), 0, num_workers=2, buckets=TWO)
    tell(peer, StepFinished(0, 1.0, None), received(2, "params", 5))
    assert tell(peer, received(3, "params", 4, bucket=1)) == [Combine(P1, 0.0, IN1), Compute(1)]
    assert tell(peer, StepFinished(1, 1.0, None))[1] == Send(3, "push", 4, 1, G1, 1.0)


def test_one_server_closes_when_all_buckets_of_all_workers_are_there() -> None:
    server = peer_of(ParameterServer(), 2, num_workers=2, buckets=TWO)
    assert tell(server, push(0, 0)) == [Combine(SUM0, 0.0, IN0)]
    assert tell(server, push(1, 0)) == [Combine(SUM0, 1.0, IN0)]
    assert tell(server, push(0, 0, bucket=1)) == [Combine(SUM1, 0.0, IN1)]
    assert server.waiting_for() == "workers 1 to push step 0; 1 gradients wait for the step to close"
    assert tell(server, push(1, 0, bucket=1)) == [
        Combine(SUM1, 1.0, IN1),
        Note("staleness", 0),
        Note("staleness", 0),
        Combine(SUM0, 1 / 2),
        Combine(SUM1, 1 / 2),
        Apply(SUM0, P0),
        Apply(SUM1, P1),
        *answers(1, 0, 0, 1),
        *answers(1, 1, 0, 1),
    ]


def test_the_other_servers_tell_the_first_when_all_are_whole() -> None:
    other = server_of(OTHER)
    assert tell(other, push(0, 0, bucket=1)) == [Combine(SUM1, 0.0, IN1)]
    assert tell(other, push(1, 0, bucket=1)) == [
        Combine(SUM1, 1.0, IN1),
        Send(FIRST, "whole", 0, 0, data={"workers": "3"}),
    ]


def test_the_first_server_closes_when_all_are_whole_everywhere() -> None:
    first = server_of(FIRST)
    assert tell(first, push(0, 0), push(1, 0)) == [Combine(SUM0, 1.0, IN0)]
    assert tell(first, whole(0, "3")) == [
        Send(OTHER, "close", 0, 0, data=BOTH),
        *applied(2.0, 0),
        *answers(1, 0, 0, 1),
    ]
    assert tell(first, push(0, 1), whole(0, "3")) == []


def test_the_other_servers_apply_whom_the_first_names() -> None:
    other = server_of(OTHER)
    tell(other, push(0, 0, 1, 2.0), push(1, 0, 1, 6.0))
    assert tell(other, said(FIRST, "close", 0, BOTH)) == [*applied(8.0, 1), *answers(1, 1, 0, 1)]


def test_a_lost_workers_gradient_leaves_the_sum_which_begins_again() -> None:
    server = peer_of(ParameterServer(), 2, num_workers=2)
    tell(server, push(0, 0, samples=4.0))
    assert tell(server, MembersChanged(1, (1, 2), "lost worker 0")) == []
    assert tell(server, push(1, 0, samples=2.0)) == [
        Combine(SUM0, 0.0, IN0, 2.0),
        *applied(2.0, 0, num_members=1),
        *answers(1, 0, 1),
    ]


def test_a_push_of_a_step_that_was_closed_before_the_change_is_answered_at_once() -> None:
    server = peer_of(ParameterServer(), 2, num_workers=2)
    tell(server, push(0, 0), push(1, 0), MembersChanged(1, (0, 1, 2), "somebody else"))
    assert tell(server, push(1, 0)) == answers(1, 0, 1)


def test_servers_without_buckets_are_not_waited_for() -> None:
    first, idle = (peer_of(ParameterServer(servers=3), me, num_workers=1, buckets=TWO) for me in (1, 3))
    tell(first, push(0, 0))
    told = tell(first, said(2, "whole", 0, {"workers": "1"}))
    assert [(action.to, action.kind) for action in told if isinstance(action, Send)] == [(2, "close"), (0, "params")]
    assert tell(idle, Started(2), MembersChanged(2, (0, 1, 2, 3), "moved server 2")) == []


def test_when_the_last_worker_has_left_no_step_is_closed() -> None:
    server = peer_of(ParameterServer(), 2, num_workers=2)
    assert tell(server, MembersChanged(1, (2,), "finished worker 1")) == []
    assert server.clock == 0


def test_what_nobody_should_say_is_refused() -> None:
    expected = "server 1 received '{}' (clock {}, bucket {}) from {}, which AtomicStepServer does not expect now."
    other = server_of(OTHER)
    tell(other, push(0, 0, 1))
    assert refusal(other, push(0, 0, 1)) == expected.format("push", 0, 1, "worker 0")
    assert refusal(other, push(1, 1, 1)) == expected.format("push", 1, 1, "worker 1")
    assert refusal(other, bodiless(FIRST, "close")) == expected.format("close", 0, 0, "server 0")
    assert refusal(other, said(FIRST, "close", 1, BOTH)) == expected.format("close", 1, 0, "server 0")
    assert refusal(other, said(FIRST, "whole", 0, {"workers": "3"})) == expected.format("whole", 0, 0, "server 0")


def test_snapshots_are_plain() -> None:
    first, other = server_of(FIRST), server_of(OTHER)
    tell(first, push(0, 0), whole(0, "1"))
    tell(other, push(0, 0, 1), changed(1, 0), said(FIRST, "closed", 0, NOBODY))
    assert first.snapshot()["whole_at"] == {"3": [0]}
    assert is_plain(first)
    assert is_plain(other)
