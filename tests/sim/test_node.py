"""What the simulator keeps for a node."""

from support.peers.puppets import Puppets

from weft.core.events import GradientReady
from weft.core.names import Bucket
from weft.core.script_state import JOINED, NO_USER
from weft.sim.node import SimulatedNode
from weft.sim.program import GhostProgram
from weft.store.ghost import GhostStore
from weft.testing.peers import peer_of


def test_a_worker_waits_to_begin_and_a_server_has_no_script() -> None:
    peer, store = peer_of(Puppets()), GhostStore([Bucket(1)], [])
    assert SimulatedNode(0, peer, store, GhostProgram([1], 1)).script.at is JOINED
    assert SimulatedNode(3, peer, store, None).script.at is NO_USER


def test_a_bucket_weighs_what_the_gate_says_and_all_of_it_without_one() -> None:
    class Half:
        """Weighs each bucket by half."""

        def weigh(self, step: int, bucket: int, samples: float) -> float:
            return samples / 2

    node, event = SimulatedNode(0, peer_of(Puppets()), GhostStore([Bucket(1)], []), None), GradientReady(3, 1, 8.0)
    assert node.weighed(event) is event
    node.gate = Half()  # type: ignore[assignment]
    assert node.weighed(event) == GradientReady(3, 1, 4.0)
