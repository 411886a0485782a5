"""Asynchronous SGD: `ssp` without a bound."""

from support.peers.newcomers import NEWCOMER, came_again, gives, without

from weft.core.actions import Apply, Note, Send
from weft.strategies import AsyncSGD, StaleSync
from weft.testing.peers import IN0, P0, peer_of, received, tell


def test_it_is_ssp_without_a_bound_unless_told_otherwise() -> None:
    assert AsyncSGD().staleness is None
    assert AsyncSGD(late="damp").late_rule == StaleSync(late="damp").late_rule
    assert not AsyncSGD().keeps_step


def test_every_push_is_applied_and_answered_at_once() -> None:
    server = peer_of(AsyncSGD(), 2, num_workers=2)
    for step in range(4):
        assert tell(server, received(0, "push", step)) == [
            Note("staleness", step),
            Apply(IN0, P0, scale=1 / 2),
            Send(0, "params", step + 1, 0, P0),
        ]


def test_a_newcomer_begins_where_the_lowest_other_worker_is_whatever_others_have_done() -> None:
    server = peer_of(AsyncSGD(), 3)
    tell(server, *(received(2, "push", step) for step in range(5)), received(0, "push"), without(4))
    assert tell(server, came_again(4)) == [gives(6)]
    assert server.shards[0].pushed == {0: 1, NEWCOMER: 1, 2: 5}
