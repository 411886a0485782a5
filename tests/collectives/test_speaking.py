"""What all peers share that speak reductions in messages: an inner peer that is never told of what did not happen."""

from random import Random
from typing import Any

import pytest
from support.peers.puppets import Puppet, Puppets

from weft.collectives.recovery import kinds_of
from weft.collectives.speaking import Key, SpeakingPeer, spoken_kinds
from weft.core.actions import MAX, MEAN, SUM, Combine, Note, Reduce, Send
from weft.core.events import Event, GradientReady, Received, Reduced, Started
from weft.core.names import Carries, Roles
from weft.core.peer import Actions
from weft.core.world import World
from weft.strategies import AllReduce
from weft.testing.peers import G0, IN0, ONE, TWO, is_plain, members, received, returned, tell

TOLD, HANDED = kinds_of("talk")


class Talking(SpeakingPeer):
    """Notes what it is asked to begin, what comes and when it must forget."""

    def begin(self, reduce: Reduce) -> Actions:
        return [Note("begin", reduce.clock)]

    def take(self, event: Received, key: Key) -> Actions:
        return [Note("/".join(map(str, key)), event.weight)]

    def forget(self) -> None:
        self.step += 1


def talking(num_workers: int = 2, op: str = MEAN, buckets: tuple[Any, ...] = ONE) -> Any:
    world = World(Roles(num_workers), buckets)

    def answer(peer: Puppet, event: Event) -> list[Any]:
        asks = isinstance(event, GradientReady) or (type(event).__name__ == "MembersChanged")
        return [Reduce(peer.workers, "gradient", 0, G0, op, 3.0)] if asks else []

    return Talking("talk", Puppets(answer).peer(0, world, Random(0)), 0, world, Random(0))


def told(source: int, ended: str) -> Received:
    return Received(source, TOLD, 1, 0, None, 1.0, {"ended": ended})


def test_a_reduce_is_swallowed_and_its_messages_are_taken_by_kind_clock_and_bucket() -> None:
    peer = talking()
    assert tell(peer, GradientReady(0, 0, 1.0)) == [Note("begin", 0)]
    assert tell(peer, received(1, "talk.gradient", 5, 0, 2.5)) == [Note("gradient/5/0", 2.5)]


def test_a_maximum_stays_an_action() -> None:
    assert tell(talking(op=MAX), GradientReady(0, 0, 1.0)) == [Reduce((0, 1), "gradient", 0, G0, MAX, 3.0)]


def test_messages_of_the_inner_peer_are_its_own() -> None:
    peer = talking()
    tell(peer, received(1, "value"), returned(1, "value"))
    assert [type(event).__name__ for _, event in peer._inner._seen] == ["Received", "Returned"]


def test_after_a_change_what_was_under_way_is_forgotten_and_nothing_begins_before_all_have_told() -> None:
    peer = talking(4)
    tell(peer, GradientReady(0, 0, 1.0))
    assert tell(peer, members(0, 1, 2)) == [Send(to, TOLD, 1, 0, data={"ended": "0"}) for to in (1, 2)]
    assert peer.step == 1
    assert tell(peer, told(2, "0")) == []
    assert peer.waiting_for() == "worker 1 to say which talk reductions it has ended"
    assert tell(peer, told(1, "0")) == [Note("begin", 0)]


def test_what_was_put_off_in_one_view_is_asked_for_anew_in_the_next() -> None:
    peer = talking(4)
    tell(peer, GradientReady(0, 0, 1.0), members(0, 1, 2), members(0, 1, view=2))
    assert tell(peer, Received(1, TOLD, 2, 0, None, 1.0, {"ended": "0"})) == [Note("begin", 0)]


@pytest.mark.parametrize(("op", "share"), [(MEAN, 1 / 9), (SUM, 1.0)])
def test_what_another_has_ended_is_told_to_the_inner_peer_as_it_was_asked_for(op: str, share: float) -> None:
    peer = talking(3, op)
    tell(peer, GradientReady(0, 0, 1.0), members(0, 1))
    assert tell(peer, told(1, "1")) == []
    assert peer.waiting_for() == "worker 1 to hand on the talk reduction of bucket 0"
    last = peer.recovery.sum(0)
    handed = Received(1, HANDED, 0, 0, IN0, 9.0, {"kind": "gradient"})
    assert tell(peer, handed) == [Combine(last, 0.0, IN0), Combine(G0, 0.0, last, share)]
    assert peer._inner._seen[-1][1] == Reduced(0, G0, 9.0)


def test_a_total_of_no_weight_leaves_the_buffer_and_so_does_a_mean_of_one() -> None:
    peer = talking()
    alone, pair = (Reduce(group, "gradient", 0, G0, MEAN, 3.0) for group in ((0,), (0, 1)))
    assert peer.tell(pair, 0.0) == peer.tell(alone, 3.0) == []
    assert peer.tell(pair, 3.0) == [Combine(G0, 0.0, peer.recovery.last_sum(0), 1 / 3)]


def test_its_own_messages_are_sent_again_when_their_channel_broke_and_not_when_members_changed() -> None:
    peer = talking()
    for kind in ("talk.gradient", TOLD, HANDED):
        assert tell(peer, returned(1, kind, 4)) == [Send(1, kind, 4, 0, IN0, 1.0)]
        assert tell(peer, returned(1, kind, 4, view=7)) == []
    assert peer._inner._seen == []


def test_its_kinds_carry_what_those_of_the_reductions_carry() -> None:
    assert spoken_kinds("talk", {"a": Carries.GRADIENT, "b": Carries.STATE}) == {
        "talk.a": Carries.DELTA,
        "talk.b": Carries.STATE,
        TOLD: Carries.NOTHING,
        HANDED: Carries.EXACT,
    }


def test_the_snapshot_holds_both_peers_and_is_plain() -> None:
    world = World(Roles(2), TWO)
    inner = AllReduce().peer(0, world, Random(0))
    peer = Talking("talk", inner, 0, world, Random(0))
    tell(peer, Started(0), GradientReady(0, 0, 1.0))
    assert is_plain(peer)
    snapshot = peer.snapshot()
    assert snapshot.pop("talk")["recovery"]["num_ended"] == [0, 0]
    assert snapshot == inner.snapshot()
