"""What every wrapper does alike: it is its inner strategy, but for what it does differently."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from weft.core.actions import Action
from weft.core.coding import Coding
from weft.core.events import Event, MembersChanged, Received, Reduced, Returned, Started, StepFinished
from weft.core.graph import Graph
from weft.core.invariants import Invariant
from weft.core.names import Carries, NodeId, Role, Roles, Slot
from weft.core.peer import Actions, Peer
from weft.core.rules import Rule
from weft.core.strategy import Strategy
from weft.core.world import World


@dataclass(frozen=True)
class Wrapped(Strategy):
    """A strategy that changes how another one speaks. Its properties, all of Strategy's, are the inner one's."""

    inner: Strategy

    def check(self, num_workers: int, num_hosts: int = 1) -> None:
        self.inner.check(num_workers, num_hosts)

    def roles(self, num_workers: int) -> Roles:
        return self.inner.roles(num_workers)

    def graph(self, num_workers: int) -> Graph | None:
        return self.inner.graph(num_workers)

    def slots(self, role: Role, world: World) -> tuple[Slot, ...]:
        return self.inner.slots(role, world)

    def kinds(self) -> Mapping[str, Carries]:
        return self.inner.kinds()

    def codecs(self) -> Mapping[str, Coding]:
        return self.inner.codecs()

    def rules(self, world: World) -> Mapping[str, Rule]:
        return self.inner.rules(world)

    def invariants(self, world: World) -> tuple[Invariant, ...]:
        return self.inner.invariants(world)


def _forwarded(name: str) -> property:
    return property(lambda wrapped: getattr(wrapped.inner, name), doc=getattr(Strategy, name).__doc__)


for _name in [name for name, member in vars(Strategy).items() if isinstance(member, property)]:
    setattr(Wrapped, _name, _forwarded(_name))


class WrappingPeer(Peer):
    """Hands events on to the peer it wraps, and its answers through `on_action`."""

    def __init__(self, inner: Peer, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(me, world, rng)
        self._inner = inner

    @property
    def holds_user(self) -> bool:
        return self._inner.holds_user

    @property
    def gives_replica(self) -> bool:
        return self._inner.gives_replica

    def waiting_for(self) -> str:
        return self._inner.waiting_for()

    def _forward(self, event: Event) -> Actions:
        """Tell the inner peer; change what it answers."""
        return [said for action in self._inner.handle(event, self.now) for said in self.on_action(action)]

    on_gradient_ready = on_portion_asked = on_epoch_finished = on_timer_fired = _forward

    def on_started(self, event: Started) -> Actions:
        return self._forward(event)

    def on_step_finished(self, event: StepFinished) -> Actions:
        return self._forward(event)

    def on_received(self, event: Received) -> Actions:
        return self._forward(event)

    def on_returned(self, event: Returned) -> Actions:
        return self._forward(event)

    def on_reduced(self, event: Reduced) -> Actions:
        return self._forward(event)

    def on_members_changed(self, event: MembersChanged) -> Actions:
        return self._forward(event)

    def on_joined(self, event: MembersChanged, newcomers: tuple[NodeId, ...]) -> Actions:
        self._is_new = False  # from now on it hears of changes as others do; its inner peer awaits the welcome
        return self._forward(event)

    def _await_welcome(self) -> None:
        """The inner peer awaits it."""

    def on_action(self, action: Action) -> Actions:
        """What becomes of an action of the inner peer."""
        return [action]
