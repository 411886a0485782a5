"""Peers are told events, and what they answer or refuse is given back."""

from random import Random

import pytest

from weft.core.actions import Compute, Note
from weft.core.errors import UnexpectedMessage
from weft.core.events import Event, Received, Started, StepFinished
from weft.core.names import INBOX, Buffer, Roles
from weft.core.peer import Actions, Peer
from weft.core.world import World
from weft.strategies import AllReduce, ParameterServer
from weft.testing.peers import ONE, TWO, bodiless, is_plain, members, peer_of, received, refusal, returned, tell


def test_a_peer_is_of_the_node_and_the_world_that_were_asked_for() -> None:
    peer = peer_of(ParameterServer(servers=2), 3, num_workers=2, buckets=TWO)
    assert (peer.me, peer.world.num_nodes, peer.world.buckets) == (3, 4, TWO)


def test_the_answer_to_the_last_event_is_given_back() -> None:
    assert tell(peer_of(AllReduce()), StepFinished(0, 1.0, None), Started(0)) == [Compute(0)]


def test_messages_have_a_body_unless_they_carry_data_or_nothing() -> None:
    assert received(1, "push", 2, bucket=3).body == Buffer(INBOX, 3)
    assert received(1, "push", data={"a": 1.0}).body is None
    assert bodiless(1, "push") == Received(1, "push", 0, 0, None, 1.0, None)
    assert (returned(1, "push", view=2).target, returned(1, "push", view=2).view) == (1, 2)
    assert members(0, 2).members == (0, 2)


def test_a_refusal_is_the_message_of_the_error() -> None:
    peer = peer_of(AllReduce())
    with pytest.raises(UnexpectedMessage) as caught:
        peer.handle(bodiless(1, "word"), 0.0)
    assert refusal(peer, bodiless(1, "word")) == caught.value.message
    with pytest.raises(AssertionError, match=r"the peer took Started.*, which it was to refuse"):
        refusal(peer, Started(0))


def test_a_refusal_whose_story_lacks_the_event_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgets(event: Event, now: float) -> None:
        raise UnexpectedMessage("no")

    peer = peer_of(AllReduce())
    monkeypatch.setattr(peer, "handle", forgets)
    with pytest.raises(AssertionError, match="is not in the story of its refusal"):
        refusal(peer, Started(0))


class Hoarder(Peer):
    """Keeps what is no plain data."""

    def on_started(self, event: Started) -> Actions:
        self.kept = object()
        return [Note("kept", 1.0)]


def test_a_peer_is_plain_if_its_snapshot_is_json() -> None:
    assert is_plain(peer_of(AllReduce()))
    hoarder = Hoarder(0, World(Roles(1), ONE), Random(0))
    tell(hoarder, Started(0))
    with pytest.raises(TypeError, match="not JSON serializable"):
        is_plain(hoarder)
