"""Peers that do what a test tells them, to see what drivers make of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from weft.core.actions import Action, Compute
from weft.core.events import Event, MembersChanged, Started, StepFinished
from weft.core.names import Carries, NodeId, Role, Roles, Slot
from weft.core.peer import Actions, Peer
from weft.core.rules import Rule
from weft.core.strategy import Strategy
from weft.core.world import World

Answer = Callable[["Puppet", Event], list[Action] | None]
"""What a puppet does; None: what a worker that trains alone, without an optimizer, would do."""


@dataclass(frozen=True)
class Puppets(Strategy):
    """All nodes ask `answer`; the kinds `value` (state), `push` (gradient) and `word` (nothing) are known."""

    answer: Answer = lambda peer, event: None
    num_servers: int = 0
    slot_names: tuple[str, ...] = ()
    named_rules: tuple[tuple[str, Rule], ...] = ()
    in_step: bool = True
    welcomes_itself: bool = False
    """A newcomer needs no welcome."""

    @property
    def keeps_step(self) -> bool:
        return self.in_step

    def roles(self, num_workers: int) -> Roles:
        return Roles(num_workers, self.num_servers)

    def slots(self, role: Role, world: World) -> tuple[Slot, ...]:
        return tuple(Slot(name) for name in self.slot_names)

    def kinds(self) -> Mapping[str, Carries]:
        return {"value": Carries.STATE, "push": Carries.GRADIENT, "word": Carries.NOTHING}

    def rules(self, world: World) -> Mapping[str, Rule]:
        return dict(self.named_rules)

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        kind = UnwelcomedPuppet if self.welcomes_itself else Puppet
        return kind(self.answer, me, world, rng)


class Puppet(Peer):
    """Keeps the events it saw, with their times."""

    def __init__(self, answer: Answer, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(me, world, rng)
        self._answer = answer
        self._seen: list[tuple[float, Event]] = []

    def _told(self, event: Event) -> Actions:
        self._seen.append((self.now, event))
        answer = self._answer(self, event)
        if answer is not None:
            return answer
        if isinstance(event, Started):
            return [Compute(0)] if self.world.role(self.me) is Role.WORKER else []
        return [Compute(event.step + 1)] if isinstance(event, StepFinished) else []

    on_started = on_gradient_ready = on_step_finished = on_portion_asked = on_epoch_finished = _told
    on_received = on_returned = on_reduced = on_timer_fired = on_members_changed = _told

    def seen(self, kind: type) -> list[Event]:
        """The events of a kind, in order."""
        return [event for _, event in self._seen if isinstance(event, kind)]

    def times(self, kind: type) -> list[float]:
        """When they came, in seconds."""
        return [now for now, event in self._seen if isinstance(event, kind)]


class UnwelcomedPuppet(Puppet):
    """Hears everything at once, also as a newcomer."""

    def _await_welcome(self) -> None:
        """Nothing to do."""

    def on_joined(self, event: MembersChanged, newcomers: tuple[NodeId, ...]) -> Actions:
        return self._told(event)
