"""Reductions of what a codec says: each worker encodes its contribution, and what is coded is reduced instead.

Some codecs agree on something first, by a reduction of its own: PowerSGD on the left factors before the right ones,
TernGrad on the scale before the signs. Those are phases, one after another.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from weft.collectives.wrapping import Wrapped, WrappingPeer
from weft.core.actions import Action, Encode, Reduce, add, copy
from weft.core.coding import Coding
from weft.core.events import MembersChanged, Reduced
from weft.core.names import Buffer, Carries, NodeId, Role, Slot
from weft.core.peer import Actions, Peer
from weft.core.world import World

NO_FEEDBACK = "none"
"""What is left out is lost."""
AT_ONCE = "at once"
"""What a worker leaves out of its own contribution it adds to its next one."""
AT_END = "at the end"
"""The codecs of the phases leave a contribution in the residual; what the result says of it is taken out there."""


@dataclass(frozen=True)
class Phase:
    """One reduction: its name, and the codec of what is reduced."""

    name: str
    codec: Coding


@dataclass(frozen=True)
class Phased(Wrapped):
    """`inner`, whose reductions of some kinds are those of what a codec says of them.

    What is coded stands in slots of its own until its reduction has ended, so one that a change of members overtook
    begins again with the very same contribution: nothing is encoded twice, and residuals stay right.
    """

    coded: tuple[str, ...]
    phases: tuple[Phase, ...]
    feedback: str = AT_ONCE
    has_velocity: bool = False
    """The codec keeps a velocity, as momentum does."""
    starts_warm: bool = False
    """The first phase is given what the last one of the round before ended with."""

    def slots(self, role: Role, world: World) -> tuple[Slot, ...]:
        if role is not Role.WORKER:
            return self.inner.slots(role, world)
        mine = [slot(kind, phase.name) for kind in self.coded for phase in self.phases]
        kept = ["residual"] if self.feedback != NO_FEEDBACK else []
        kept += ["velocity"] if self.has_velocity else []
        mine += [slot(kind, name) for kind in self.coded for name in kept]
        return (*self.inner.slots(role, world), *map(Slot, mine))

    def kinds(self) -> Mapping[str, Carries]:
        inner = self.inner.kinds()
        return {**inner, **{slot(kind, phase.name): inner[kind] for kind in self.coded for phase in self.phases}}

    def codecs(self) -> Mapping[str, Coding]:
        mine = {slot(kind, phase.name): phase.codec for kind in self.coded for phase in self.phases}
        return {**self.inner.codecs(), **mine}

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        return PhasedPeer(self, self.inner.peer(me, world, rng), me, world, rng)


def slot(kind: str, name: str) -> str:
    """What a phase, or what is kept for a kind, is called."""
    return f"{kind}:{name}"


class Round:
    """One Reduce of the inner peer under way, and in which phase it is."""

    def __init__(self, reduce: Reduce) -> None:
        self._reduce = reduce
        self.phase = 0


class PhasedPeer(WrappingPeer):
    """Wraps a peer; does its reductions of coded kinds in phases."""

    def __init__(self, recipe: Phased, inner: Peer, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(inner, me, world, rng)
        self._recipe = recipe
        self.rounds: dict[tuple[str, int], Round] = {}
        """By kind and bucket, of which at most one is under way."""
        self.warm: set[tuple[str, int]] = set()
        """Those that have ended a round."""

    def snapshot(self) -> dict[str, Any]:
        return {**self._inner.snapshot(), "phases": super().snapshot()}

    def on_action(self, action: Action) -> Actions:
        if not isinstance(action, Reduce) or action.kind not in self._recipe.coded:
            return [action]
        key = action.kind, action.buffer.bucket
        round_ = self.rounds.get(key)
        if round_ is not None:  # a change of members overtook it: it begins again where it was
            round_._reduce = action
            return [self._reduced(round_)]
        round_ = self.rounds[key] = Round(action)
        return [*self._encode(round_), self._reduced(round_)]

    def _buffer(self, round_: Round, name: str) -> Buffer:
        return Buffer(slot(round_._reduce.kind, name), round_._reduce.buffer.bucket)

    def _phase(self, round_: Round, number: int) -> Buffer:
        return self._buffer(round_, self._recipe.phases[number].name)

    def _reduced(self, round_: Round) -> Reduce:
        """The reduction of what is coded in this phase."""
        asked, into = round_._reduce, self._phase(round_, round_.phase)
        return Reduce(asked.group, into.slot, asked.clock, into, asked.op, asked.weight)

    def _encode(self, round_: Round) -> Actions:
        """Encode for this phase. A contribution of no weight leaves no traces."""
        recipe, reduce, number = self._recipe, round_._reduce, round_.phase
        into, residual, given = self._phase(round_, number), None, None
        if recipe.feedback != NO_FEEDBACK and reduce.weight:
            residual = self._buffer(round_, "residual")
        if recipe.has_velocity and reduce.weight:
            given = self._buffer(round_, "velocity")
        elif number > 0:
            given = self._phase(round_, number - 1)
        elif recipe.starts_warm and (reduce.kind, reduce.buffer.bucket) in self.warm:
            given = self._phase(round_, len(recipe.phases) - 1)
        return [Encode(into.slot, reduce.clock, into, reduce.buffer, residual, given)]

    def on_joined(self, event: MembersChanged, newcomers: tuple[NodeId, ...]) -> Actions:
        """A newcomer has nothing of the round before, so nobody starts warm."""
        self.warm.clear()
        return super().on_joined(event, newcomers)

    def on_reduced(self, event: Reduced) -> Actions:
        key = event.buffer.slot.rpartition(":")[0], event.buffer.bucket
        if key not in self.rounds:
            return self._forward(event)
        round_ = self.rounds[key]
        if event.weight and round_.phase < len(self._recipe.phases) - 1:
            round_.phase += 1
            return [*self._encode(round_), self._reduced(round_)]
        del self.rounds[key]
        reduce, actions = round_._reduce, list[Action]()
        if event.weight:
            self.warm.add(key)
            actions.append(copy(reduce.buffer, event.buffer))
            if self._recipe.feedback == AT_END and reduce.weight:
                actions.append(add(self._buffer(round_, "residual"), reduce.buffer, -1.0))
        return actions + self._forward(Reduced(reduce.clock, reduce.buffer, event.weight))
