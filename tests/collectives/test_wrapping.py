"""A wrapper is its inner strategy, but for what it does differently."""

from random import Random

import pytest
from support.peers.puppets import Puppets

from weft.collectives.wrapping import Wrapped, WrappingPeer
from weft.core.actions import Action, Apply, Compute, Note, Send
from weft.core.events import (
    EpochFinished,
    GradientReady,
    MembersChanged,
    PortionAsked,
    Reduced,
    Started,
    StepFinished,
    TimerFired,
)
from weft.core.names import NodeId, Role, Roles
from weft.core.peer import Actions, Peer
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.strategies import Downpour, Neighbours, Population, Sandblaster, StaleSync
from weft.testing.peers import G0, ONE, P0, is_plain, peer_of, received, returned, tell

EVENTS = (
    Started(0),
    GradientReady(0, 0, 1.0),
    StepFinished(0, 1.0, None),
    PortionAsked(0, 4),
    EpochFinished(0, {}),
    received(1, "value"),
    returned(1, "value"),
    Reduced(0, G0, 1.0),
    TimerFired("late"),
    MembersChanged(1, (0, 1), "lost worker 2"),
)


PROPERTIES = [name for name, member in vars(Strategy).items() if isinstance(member, property)]


class Loud(Wrapped):
    """Notes every action of its inner peer before it is done."""

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        return LoudPeer(self.inner.peer(me, world, rng), me, world, rng)


class LoudPeer(WrappingPeer):
    def on_action(self, action: Action) -> Actions:
        return [Note(type(action).__name__, 1.0), action]


def test_every_property_and_every_declaration_is_the_inner_strategys() -> None:
    of_classes = {"example_parameters"}  # drawn before there is a strategy to wrap
    public = {name for name in vars(Strategy) if not name.startswith("_")} - {"peer"} - of_classes
    assert public <= set(vars(Wrapped)), "a wrapper would answer for its inner strategy with a default"
    world = World(Roles(3, 1), ONE)
    for inner in (StaleSync(), Downpour(), Neighbours(), Population(), Sandblaster()):
        wrapped = Wrapped(inner)
        assert wrapped.invariants(world) == inner.invariants(world)
        for name in PROPERTIES:
            assert getattr(wrapped, name) == getattr(inner, name)
        assert wrapped.roles(3) == inner.roles(3)
        assert (wrapped.graph(4) is None) is (inner.graph(4) is None)
        assert wrapped.kinds() == inner.kinds()
        assert wrapped.codecs() == inner.codecs() == {}
        assert wrapped.rules(world) == inner.rules(world)
    assert Wrapped(Downpour()).slots(Role.WORKER, world) == Downpour().slots(Role.WORKER, world)


@pytest.mark.parametrize("name", PROPERTIES)
def test_whatever_an_inner_strategy_says_of_itself_its_wrappers_say(name: str) -> None:
    said = object()
    inner = type("Inner", (Strategy,), {name: property(lambda self: said)})()
    assert getattr(Wrapped(inner), name) is said
    assert getattr(Loud(Wrapped(inner)), name) is said


def test_every_event_reaches_the_inner_peer_and_every_action_passes_by_the_wrapper() -> None:
    peer = peer_of(Loud(Puppets(lambda peer, event: [Apply(G0, P0), Compute(1)])))
    for event in EVENTS:
        assert tell(peer, event) == [Note("Apply", 1.0), Apply(G0, P0), Note("Compute", 1.0), Compute(1)]
    assert [event for _, event in peer._inner._seen] == list(EVENTS)


def test_what_it_waits_for_and_whether_the_user_is_held_is_for_the_inner_peer_to_say() -> None:
    peer = peer_of(Loud(StaleSync()), num_workers=2)
    tell(peer, Started(0), StepFinished(0, 1.0, None))
    assert peer.waiting_for() == peer._inner.waiting_for() != "the user's iteration"
    assert peer.holds_user is peer._inner.holds_user
    assert is_plain(peer)


def test_unless_it_says_otherwise_actions_are_left_as_they_are() -> None:
    world = World(Roles(2), ONE)
    inner = Puppets(lambda peer, event: [Send(1, "value", 0, 0, P0)]).peer(0, world, Random(0))
    assert WrappingPeer(inner, 0, world, Random(0)).handle(Started(0), 0.0) == [Send(1, "value", 0, 0, P0)]
