"""Messages and reductions arrive when the network says so."""

from collections.abc import Sequence

import pytest
from support.peers.puppets import Puppets

from weft.core.actions import MEAN, Reduce, Send
from weft.core.errors import IllegalAction
from weft.core.events import Event, Received, Reduced
from weft.core.names import Bucket
from weft.cost.links import Link
from weft.sim.delivery import DirectDelivery
from weft.sim.facts import Facts
from weft.sim.kernel import Kernel
from weft.sim.network import HostLinks, Network
from weft.sim.node import SimulatedNode
from weft.store.ghost import GhostStore
from weft.testing.peers import P0, peer_of

LATENCY_NS, NUM_BYTES = 1_000, 4
WORD = Received(0, "word", 0, 0, None, 1.0, None)


class Told:
    """Nodes without a driver: keeps what they are told, and when."""

    def __init__(self, hosts: Sequence[int]) -> None:
        link = Link(LATENCY_NS / 1e9, NUM_BYTES * 1e6)  # a message of four bytes takes another microsecond
        self.kernel = Kernel()
        self.facts = Facts(len(hosts))
        self.network: Network = HostLinks(hosts, [link] * len(hosts), link)
        self.nodes = [
            SimulatedNode(id, peer_of(Puppets(), me=id), GhostStore([Bucket(1)], []), None) for id in range(len(hosts))
        ]
        self.told: list[tuple[int, int, Event, object]] = []
        self.delivery = DirectDelivery(self)

    def deliver(self, node: SimulatedNode, event: Event) -> None:
        self.told.append((self.kernel.now_ns, node.id, event, None))

    def receive(self, node: SimulatedNode, event: Received, payload: object, hyper: object) -> None:
        self.told.append((self.kernel.now_ns, node.id, event, payload))

    def post(self, source: int, to: int, event: Received, size: int, payload: object) -> None:
        self.delivery.post(self.nodes[source], Send(to, event.kind, 0, 0), event, size, payload, None)


def test_a_message_is_told_when_it_has_arrived_and_counted_when_it_is_sent() -> None:
    world = Told((0, 1))
    world.post(0, 1, WORD, 0, None)
    world.post(0, 1, WORD, NUM_BYTES, "body")
    assert world.facts.bytes_from == [NUM_BYTES, 0]
    world.kernel.run()
    assert world.told == [(LATENCY_NS, 1, WORD, None), (2 * LATENCY_NS, 1, WORD, "body")]


def test_a_message_of_a_busy_node_leaves_when_it_is_free() -> None:
    world = Told((0, 1))
    world.nodes[0].busy_ns = 500
    world.post(0, 1, WORD, 0, None)
    world.kernel.run()
    assert world.told == [(500 + LATENCY_NS, 1, WORD, None)]


def test_messages_that_queue_at_their_sender_come_in_one_after_another() -> None:
    world = Told((0, 1))
    for body in ("first", "second"):
        world.post(0, 1, WORD, NUM_BYTES, body)
    world.kernel.run()
    assert [(now_ns, body) for now_ns, _, _, body in world.told] == [(2_000, "first"), (3_000, "second")]


def test_a_message_to_nobody_is_illegal() -> None:
    with pytest.raises(IllegalAction, match=r"goes to a node that is not of the world \(0 to 1\)\.$"):
        Told((0, 1)).post(0, 2, WORD, 0, None)


def test_a_reduction_is_told_to_all_when_the_last_has_joined() -> None:
    world = Told((0, 1))
    action = Reduce((0, 1), "value", 3, P0, MEAN, 1.0)
    world.delivery.reduce(world.nodes[0], action)
    assert world.delivery.missing() == ["the reduction of 'value' at clock 3 lacks node [1]"]
    world.delivery.reduce(world.nodes[1], action)
    assert world.delivery.missing() == []
    world.kernel.run()
    assert [(node, event) for _, node, event, _ in world.told] == [(n, Reduced(3, P0, 2.0)) for n in (0, 1)]
    assert world.facts.bytes_sent == 2 * NUM_BYTES
