"""Messages and nodes that may fail."""

import pytest
from support.peers.puppets import Puppets

from weft.core.events import Received, Returned, Started
from weft.core.names import Bucket
from weft.core.script_state import ENDED, IN_STEP, JOINED, RUNNING
from weft.sim.faults.in_flight import OPEN, FailableNode, MessageInFlight
from weft.store.ghost import GhostStore
from weft.testing.peers import peer_of


def node() -> FailableNode:
    return FailableNode(2, peer_of(Puppets(), me=2), GhostStore([Bucket(1)], []), None, process=2, view=3)


def test_a_message_knows_the_view_of_its_sending_and_says_so_when_it_comes_back() -> None:
    message = MessageInFlight(node(), 1, Received(2, "word", 5, 0, None, 2.0, {"a": 1}), None, None, number=1)
    assert (message.view, message.fate) == (3, OPEN)
    assert message.returned() == Returned(1, "word", 5, 0, None, 2.0, {"a": 1}, view=3)


def test_a_node_lives_by_its_own_clock() -> None:
    wrong = node()
    wrong.offset_s, wrong.rate = 10.0, 2.0
    wrong.handle(Started(3), 1.5)
    assert wrong.peer.now == 13.0
    assert wrong.due_ns(13.0) == pytest.approx(1.5e9)


def test_a_node_has_begun_a_step_when_its_script_was_let_go_or_has_ended() -> None:
    worker = node()
    worker.script.at = JOINED
    assert not worker.has_begun(0)
    worker.step, worker.script.at = 4, IN_STEP
    assert [worker.has_begun(step) for step in (3, 4)] == [True, False]
    worker.script.at = RUNNING
    assert [worker.has_begun(step) for step in (4, 5)] == [True, False]
    worker.script.at = ENDED
    assert worker.has_begun(9)
