"""What the simulator keeps for a node."""

from peers import peer_of
from puppets import Puppets

from weft.core.names import Bucket
from weft.sim.node import IN_STEP, NO_USER, Node
from weft.sim.program import GhostProgram
from weft.store.ghost import GhostStore


def test_a_worker_begins_as_if_it_waited_in_a_step_and_a_server_has_no_script() -> None:
    peer, store = peer_of(Puppets()), GhostStore([Bucket(1)], [])
    assert Node(0, peer, store, GhostProgram([1], 1)).user is IN_STEP
    assert Node(3, peer, store, None).user is NO_USER
