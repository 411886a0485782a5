"""Nodes that can always act cost nothing: what is asked of their liveness comes back as it was."""

from support.peers.puppets import Puppets

from weft.core.names import Bucket
from weft.sim.compute import PerSample
from weft.sim.liveness import AlwaysAble
from weft.sim.node import SimulatedNode
from weft.store.ghost import GhostStore
from weft.testing.peers import peer_of


def test_what_nodes_do_and_how_long_it_takes_is_as_it_was_given() -> None:
    compute, liveness = PerSample([1.0]), AlwaysAble()

    def act(node: SimulatedNode) -> None: ...

    assert liveness.when_able(act) is act
    assert liveness.slowed(compute) is compute


def test_a_node_goes_by_the_clock_of_the_simulation_and_is_never_gone() -> None:
    liveness = AlwaysAble()
    node = liveness.new_node(1, peer_of(Puppets(), me=1), GhostStore([Bucket(1)], []), None)
    assert (type(node), node.id) == (SimulatedNode, 1)
    assert liveness.due_ns(node, 1.5) == 1_500_000_000
    assert not liveness.is_gone(node)
