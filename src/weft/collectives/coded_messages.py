"""Codecs on messages from node to node: pushes with feedback, answers as differences, and plain casts.

A push is encoded once for each step: sent again, or to several targets, it is the same payload. What a push leaves out
is kept and said with the next one; so is all of it when nobody will hear it. Parameters that the receiver takes over
travel as the difference to those that it has: both ends keep what that is, so what one answer leaves out is in the next
difference.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from weft.collectives.wrapping import Wrapped, WrappingPeer
from weft.core.actions import Action, Encode, Send, add, copy
from weft.core.coding import Coding
from weft.core.events import MembersChanged, Received, Returned, StepFinished
from weft.core.names import INBOX, Buffer, Carries, NodeId, Role, Slot
from weft.core.peer import Actions, Peer
from weft.core.world import World

WHOLE = ":whole"
"""What is added to the name of a kind that is sent as it is, because the receiver has nothing to compare with."""


@dataclass(frozen=True)
class CodedMessages(Wrapped):
    """`inner`, whose messages of some kinds are coded."""

    codec: Coding
    pushed: tuple[str, ...] = ()
    """Kinds whose residual is kept, if the codec wants that."""
    followed: tuple[str, ...] = ()
    """Kinds that travel as differences."""
    cast: tuple[str, ...] = ()
    """Kinds that are encoded and nothing else."""
    has_velocity: bool = False
    """The codec keeps a velocity, as momentum does."""

    def slots(self, role: Role, world: World) -> tuple[Slot, ...]:
        mine = [coded(kind) for kind in (*self.pushed, *self.followed, *self.cast)]
        if role is Role.WORKER:
            mine += [residual(kind) for kind in self.pushed if self.codec.wants_feedback]
            mine += [velocity(kind) for kind in self.pushed if self.has_velocity]
            mine += [held(kind) for kind in self.followed]
        else:
            mine += [difference(kind) for kind in self.followed]
            mine += [held(kind, worker) for kind in self.followed for worker in world.workers]
        return (*self.inner.slots(role, world), *map(Slot, mine))

    def kinds(self) -> Mapping[str, Carries]:
        return {**self.inner.kinds(), **{kind + WHOLE: Carries.EXACT for kind in self.followed}}

    def codecs(self) -> Mapping[str, Coding]:
        mine = dict.fromkeys((*self.pushed, *self.followed, *self.cast), self.codec)
        return {**self.inner.codecs(), **mine}

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        return CodedMessagesPeer(self, self.inner.peer(me, world, rng), me, world, rng)


def coded(kind: str) -> str:
    """Where a message of a kind stands in coded form."""
    return f"{kind}:coded"


def residual(kind: str) -> str:
    """Where what pushes have not said stands."""
    return f"{kind}:residual"


def velocity(kind: str) -> str:
    """Where a codec that takes over the momentum keeps it."""
    return f"{kind}:velocity"


def difference(kind: str) -> str:
    """Where a server finds out what a worker lacks."""
    return f"{kind}:difference"


def held(kind: str, worker: NodeId | None = None) -> str:
    """Where a worker, and its server for that worker, keep what was told so far."""
    return f"{kind}:held" if worker is None else f"{kind}:held.{worker}"


class CodedMessagesPeer(WrappingPeer):
    """Wraps a peer; encodes what it sends, and follows what it is told in differences."""

    def __init__(self, recipe: CodedMessages, inner: Peer, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(inner, me, world, rng)
        self._recipe = recipe
        self.encoded: set[Buffer] = set()
        """What was encoded since the last step."""
        self.sent: dict[Buffer, list[tuple[int, int]]] = {}
        """How often pushes were sent: (clock, number) where the number is another than before."""
        self.dropped: dict[tuple[Buffer, int], int] = {}
        """How often the push of a clock came back for good, if not all of them did."""
        self.known: set[tuple[str, int, NodeId]] = set()
        """The kind and bucket of which a worker has something to compare with."""

    def snapshot(self) -> dict[str, Any]:
        return {**self._inner.snapshot(), "coded_messages": super().snapshot()}

    def on_step_finished(self, event: StepFinished) -> Actions:
        self.encoded.clear()
        return self._forward(event)

    def on_members_changed(self, event: MembersChanged) -> Actions:
        """Who has received what is not sure any more: answers are whole again."""
        self.known.clear()
        return self._forward(event)

    def on_action(self, action: Action) -> Actions:
        recipe = self._recipe
        if not isinstance(action, Send) or action.body is None or action.body.slot == INBOX:
            return [action]  # what is sent again as it came back is coded already
        if action.kind in recipe.pushed:
            return self._push(action, action.body)
        if action.kind in recipe.followed:
            return self._answer(action, action.body)
        if action.kind in recipe.cast:
            into = Buffer(coded(action.kind), action.body.bucket, action.body.part)
            return [Encode(action.kind, action.clock, into, action.body), _with_body(action, into)]
        return [action]

    def _push(self, action: Send, body: Buffer) -> Actions:
        into = Buffer(coded(action.kind), body.bucket, body.part)
        runs = self.sent.setdefault(into, [])
        if into in self.encoded:
            runs[-1] = runs[-1][0], runs[-1][1] + 1
            return [_with_body(action, into)]
        self.encoded.add(into)
        if len(runs) > 1 and runs[-2][1] == runs[-1][1]:
            runs.pop()
        runs.append((action.clock, 1))
        kept = given = None
        if action.weight and self._recipe.codec.wants_feedback:
            kept = Buffer(residual(action.kind), body.bucket, body.part)
        if action.weight and self._recipe.has_velocity:
            given = Buffer(velocity(action.kind), body.bucket, body.part)
        return [Encode(action.kind, action.clock, into, body, kept, given), _with_body(action, into)]

    def _answer(self, action: Send, body: Buffer) -> Actions:
        kind, bucket = action.kind, body.bucket
        theirs = Buffer(held(kind, action.to), bucket, body.part)
        key = kind, bucket, action.to
        if key not in self.known:
            self.known.add(key)
            whole = Send(action.to, kind + WHOLE, action.clock, action.bucket, body, action.weight, action.data)
            return [copy(theirs, body), whole]
        lack = Buffer(difference(kind), bucket, body.part)
        into = Buffer(coded(kind), bucket, body.part)
        return [
            copy(lack, body),
            add(lack, theirs, -1.0),
            Encode(kind, action.clock, into, lack),
            add(theirs, into),
            _with_body(action, into),
        ]

    def on_received(self, event: Received) -> Actions:
        kind = event.kind.removesuffix(WHOLE)
        if kind not in self._recipe.followed or event.body is None:
            return self._forward(event)
        mine = Buffer(held(kind), event.body.bucket, event.body.part)
        followed = copy(mine, event.body) if event.kind.endswith(WHOLE) else add(mine, event.body)
        told = Received(event.source, kind, event.clock, event.bucket, mine, event.weight, event.data)
        return [followed, *self._forward(told)]

    def on_returned(self, event: Returned) -> Actions:
        """What will not be sent again is said later: a push by the residual, an answer as a whole."""
        kind = event.kind.removesuffix(WHOLE)
        told = Returned(event.target, kind, event.clock, event.bucket, event.body, event.weight, event.data, event.view)
        actions = self._forward(told)
        if kind in self._recipe.followed:  # it may come after later ones, if it is sent again
            self.known.discard((kind, event.bucket, event.target))
        if event.body is None or any(isinstance(action, Send) and action.body == event.body for action in actions):
            return [_as_it_was(action, event) for action in actions]
        is_kept = kind in self._recipe.pushed and self._recipe.codec.wants_feedback and event.weight
        if is_kept and self._is_unheard(Buffer(coded(kind), event.bucket, event.body.part), event.clock):
            back = add(Buffer(residual(kind), event.bucket, event.body.part), event.body)
            return [back, *actions]
        return actions

    def _is_unheard(self, pushed: Buffer, clock: int) -> bool:
        """A push came back for good; was it the last one of its clock that somebody might still hear?"""
        num_sent = next(number for since, number in reversed(self.sent[pushed]) if since <= clock)
        num_dropped = self.dropped.pop((pushed, clock), 0) + 1
        if num_dropped < num_sent:
            self.dropped[pushed, clock] = num_dropped
        return num_dropped == num_sent


def _with_body(action: Send, body: Buffer) -> Send:
    return Send(action.to, action.kind, action.clock, action.bucket, body, action.weight, action.data)


def _as_it_was(action: Action, event: Returned) -> Action:
    """A message that is sent again as it came back keeps the kind it had."""
    if isinstance(action, Send) and action.body == event.body and action.kind != event.kind:
        return Send(action.to, event.kind, action.clock, action.bucket, action.body, action.weight, action.data)
    return action
