"""Reductions spoken in messages: whatever the messages are, a change of members ends them for all or for none."""

from random import Random
from typing import Any, ClassVar

from weft.collectives.recovery import Recovery, kinds_of
from weft.collectives.wrapping import WrappingPeer
from weft.core.actions import MAX, MEAN, Action, Combine, Reduce
from weft.core.events import MembersChanged, Received, Reduced, Returned
from weft.core.names import Carries, NodeId
from weft.core.peer import Actions, Peer
from weft.core.world import World

Key = tuple[str, int, int]
"""Which Reduce a message belongs to: kind, clock, bucket."""


def spoken_kinds(name: str, kinds: dict[str, Carries]) -> dict[str, Carries]:
    """The messages in which reductions of these kinds are spoken, and what survivors tell each other."""
    told, handed = kinds_of(name)
    # a gradient on its way to be summed is applied by nobody, so the sender's hyper-parameters need not go with it
    spoken = {
        f"{name}.{kind}": Carries.DELTA if carries is Carries.GRADIENT else carries for kind, carries in kinds.items()
    }
    return {**spoken, told: Carries.NOTHING, handed: Carries.EXACT}


class SpeakingPeer(WrappingPeer):
    """Swallows Reduce. When members change, a reduction has ended for all survivors or for none, as their inner peers
    see it (decision 0017, promise 5)."""

    changes_alone: ClassVar[bool] = False
    """What it says of a contribution is not the contribution, not even where nobody else has one."""

    def __init__(self, name: str, inner: Peer, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(inner, me, world, rng)
        self._name = name
        self._prefix = f"{name}."
        self._told, self._handed = kinds_of(name)
        self.recovery = Recovery(name, me, len(world.buckets))
        self._put_off: list[Reduce] = []
        """What the inner peer wants reduced, but has perhaps ended already for others."""

    def snapshot(self) -> dict[str, Any]:
        return {**self._inner.snapshot(), self._name: super().snapshot()}

    def waiting_for(self) -> str:
        for worker in sorted(self.recovery.untold):
            return f"{self.world.name(worker)} to say which {self._name} reductions it has ended"
        for bucket, worker in self.recovery.owed.items():
            return f"{self.world.name(worker)} to hand on the {self._name} reduction of bucket {bucket}"
        return self._inner.waiting_for()

    def speaks(self, reduce: Reduce) -> bool:
        """It is for this peer to do; a maximum cannot be said in Combine and stays an action."""
        return reduce.op != MAX

    def on_action(self, action: Action) -> Actions:
        return self._reduce(action) if isinstance(action, Reduce) and self.speaks(action) else [action]

    def on_members_changed(self, event: MembersChanged) -> Actions:
        """What was under way never happened; what has ended for some is found out before anything begins."""
        self.forget()
        self._put_off.clear()
        told = self.recovery.begin(event.view, self.workers) if self.me in self.workers else []
        return [*told, *self._forward(event)]

    def on_joined(self, event: MembersChanged, newcomers: tuple[NodeId, ...]) -> Actions:
        """At rest every reduction has ended for all: counting begins anew, as a newcomer's does."""
        self.forget()
        self.recovery = Recovery(self._name, self.me, len(self.world.buckets))
        return super().on_joined(event, newcomers)

    def on_returned(self, event: Returned) -> Actions:
        return Peer.on_returned(self, event) if self._is_mine(event.kind) else self._forward(event)

    def _is_mine(self, kind: str) -> bool:
        return kind.startswith(self._prefix) or kind == self._told or kind == self._handed

    def on_received(self, event: Received) -> Actions:
        if not self._is_mine(event.kind):
            return self._forward(event)
        if event.kind == self._told:
            return [*self.recovery.hear(event), *self._go_on()]
        if event.kind == self._handed:
            return [*self.recovery.take(event), *self._go_on()]
        return self.take(event, (event.kind.removeprefix(self._prefix), event.clock, event.bucket))

    def _go_on(self) -> Actions:
        """More is known of what has ended: begin, or end, what was put off."""
        waiting, self._put_off = self._put_off, []
        return [action for reduce in waiting for action in self._reduce(reduce)]

    def _reduce(self, reduce: Reduce) -> Actions:
        """Do what the inner peer asks for, unless a survivor has done it: then its result counts."""
        if self.recovery.blocks(reduce.buffer.bucket):
            self._put_off.append(reduce)
            return []
        weight = self.recovery.claim(reduce)
        return self.begin(reduce) if weight is None else self.tell(reduce, weight)

    def tell(self, reduce: Reduce, total: float) -> Actions:
        """The sum is there: let the inner peer have what it asked for."""
        actions: Actions = []
        is_mean = reduce.op == MEAN
        is_own = is_mean and total == reduce.weight and len(reduce.group) == 1 and not self.changes_alone
        if total and not is_own:
            last = self.recovery.last_sum(reduce.buffer.bucket)
            actions.append(Combine(reduce.buffer, 0.0, last, 1.0 / total if is_mean else 1.0))
        return actions + self._forward(Reduced(reduce.clock, reduce.buffer, total))

    def begin(self, reduce: Reduce) -> Actions:
        """Begin to reduce among the workers of this view."""
        raise NotImplementedError

    def take(self, event: Received, key: Key) -> Actions:
        """A message of a reduction came, perhaps before it was begun here."""
        raise NotImplementedError

    def forget(self) -> None:
        """What was under way never happened."""
        raise NotImplementedError
