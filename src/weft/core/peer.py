"""A peer: one node's share of a strategy, told facts and answering with commands.

The rules of the vocabulary that a peer itself can keep are kept here; drivers keep the others.

1. A peer names tensors; it never holds one.
2. Facts in, commands out: `now` and `rng` are given; no logging, environment, clock or callback.
6. Actions run in the order in which they were emitted.
7. The vocabulary is closed: an event of another type is an error.
11. `holds_user` stays True while backward must not return.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, ClassVar

from weft.core.actions import Action, Compute, Reduce, Send, copy
from weft.core.errors import IllegalAction, ProtocolError, UnexpectedMessage
from weft.core.events import (
    Data,
    EpochFinished,
    Event,
    GradientReady,
    MembersChanged,
    PortionAsked,
    Received,
    Reduced,
    Returned,
    Started,
    StepFinished,
    TimerFired,
)
from weft.core.names import PARAMS, WELCOME, Buffer, NodeId
from weft.core.story import Story
from weft.core.world import World

Actions = list[Action]

HANDLERS: dict[type, str] = {
    Started: "on_started",
    GradientReady: "on_gradient_ready",
    StepFinished: "on_step_finished",
    PortionAsked: "on_portion_asked",
    EpochFinished: "on_epoch_finished",
    Received: "on_received",
    Returned: "on_returned",
    Reduced: "on_reduced",
    TimerFired: "on_timer_fired",
    MembersChanged: "on_members_changed",
}


class Peer:
    """Handles events in its `on_<event>` methods; everything it keeps is plain data.

    Deterministic: the same events, times and `rng` give the same actions. Attributes whose name
    begins with an underscore, and those of the constructor, are not part of `snapshot`.

    A worker's peer whose world is not of the first view is a newcomer's (decision 0040). It is welcomed before it
    begins: its `sponsor`, the lowest of the other workers, sends it the slots `_inherits` and what `hand_over` says.
    """

    _not_in_snapshot: ClassVar[frozenset[str]] = frozenset({"me", "world", "rng", "now", "view", "members", "workers"})
    _inherits: ClassVar[tuple[str, ...]] = (PARAMS,)
    """The slots that a newcomer takes over, every bucket of them."""

    def __init__(self, me: NodeId, world: World, rng: Random) -> None:
        self.me = me
        self.world = world
        self.rng = rng
        self.now = 0.0
        self.step = 0
        self.view = world.view
        self.members: tuple[NodeId, ...] = (*world.workers, *world.servers)
        """The nodes that take part in this view."""
        self.workers = world.workers
        """The workers among them."""
        self._handlers: dict[type, Callable[[Any], Actions]] = {
            event: getattr(self, handler) for event, handler in HANDLERS.items()
        }
        self._handlers[GradientReady] = self._open_reduces_of
        self._handlers[Reduced] = self._close_reduce
        self._handlers[MembersChanged] = self._change_members
        self._story = Story()
        self._keep = self._story.chapters.append
        self._open_reduces: set[tuple[int, str, int]] = set()
        self._is_new = me < world.num_workers and world.view > 0
        """It came into a run that was under way, and has not been welcomed yet."""
        if self._is_new:
            self._await_welcome()

    def _await_welcome(self) -> None:
        """Answer nothing but its welcome until that is complete."""
        self._where: Data | None = None
        self._awaited = {(slot, bucket) for slot in self._inherits for bucket in range(len(self.world.buckets))}
        self._handlers[Started] = lambda event: []
        self._handlers[Received] = self._be_welcomed

    def handle(self, event: Event, now: float) -> Sequence[Action]:
        """Tell the peer a fact; perform what it answers in order. Final: override `on_<event>`."""
        self.now = now
        kind = type(event)
        try:
            actions = self._handlers[kind](event)
        except KeyError:
            if kind in self._handlers:
                raise
            raise IllegalAction(f"{event!r} is not an event; the vocabulary of core/events.py is closed.") from None
        except ProtocolError as error:
            self._keep((now, event, ()))
            error.story = error.story or self.story()
            raise
        self._keep((now, event, actions))
        return actions

    def _open_reduces_of(self, event: GradientReady) -> Actions:
        """Note the reductions that must end before backward returns (rule 11 of docs/architecture.md)."""
        actions = self.on_gradient_ready(event)
        for action in actions:
            if type(action) is Reduce:
                self._open_reduces.add((action.clock, action.buffer.slot, action.buffer.bucket))
        return actions

    def _close_reduce(self, event: Reduced) -> Actions:
        self._open_reduces.discard((event.clock, event.buffer.slot, event.buffer.bucket))
        return self.on_reduced(event)

    def _change_members(self, event: MembersChanged) -> Actions:
        """Take the new view; the user goes on waiting for those reductions that are asked for again."""
        before, self.view, self.members = self.members, event.view, event.members
        self.workers = tuple(node for node in event.members if node < self.world.num_workers)
        newcomers = tuple(node for node in self.workers if node not in before)
        if newcomers or self._is_new:
            return self.on_joined(event, newcomers)
        awaited, self._open_reduces = self._open_reduces, set()
        actions = self.on_members_changed(event)
        for action in actions:
            if type(action) is Reduce:
                key = (action.clock, action.buffer.slot, action.buffer.bucket)
                if key in awaited:
                    self._open_reduces.add(key)
        return actions

    def _be_welcomed(self, event: Received) -> Actions:
        """Take over what the sponsor, or a server, sends; begin when all has come."""
        if event.kind != WELCOME or event.data is None:
            raise self.unexpected(event)
        actions: Actions = []
        if event.body is not None:
            into = Buffer(str(event.data["slot"]), event.bucket)
            self._awaited.discard((into.slot, into.bucket))
            actions += self.take_bucket(into, event.body, event.clock)
        else:
            self._where = event.data
        if self._awaited or self._where is None:
            return actions
        self._is_new = False
        self._handlers[Started], self._handlers[Received] = self.on_started, self.on_received
        return actions + self.take_over(self._where)

    @property
    def holds_user(self) -> bool:
        """True while the user's `backward` or `report` must not return (rule 11)."""
        return bool(self._open_reduces)

    def story(self) -> str:
        """The last events and actions of this node."""
        return self._story.tell(self.world.name(self.me))

    def snapshot(self) -> dict[str, Any]:
        """Plain data: for checkpoints, equality in tests and the dashboard."""
        return {name: value for name, value in _public(self).items() if name not in self._not_in_snapshot}

    def waiting_for(self) -> str:
        """One sentence for errors and the dashboard: what this node needs to go on."""
        if self._open_reduces:
            clock, slot, bucket = min(self._open_reduces)
            return f"the reduction of {slot}[{bucket}] at step {clock}"
        return "the user's iteration"

    def on_started(self, event: Started) -> Actions:
        return [Compute(0)]

    def on_gradient_ready(self, event: GradientReady) -> Actions:
        return []

    def on_step_finished(self, event: StepFinished) -> Actions:
        raise IllegalAction(f"{type(self).__name__} was told of {event!r}, but has no iteration of its own.")

    def on_portion_asked(self, event: PortionAsked) -> Actions:
        raise IllegalAction(f"{type(self).__name__} was told of {event!r}, but deals no portions.")

    def on_epoch_finished(self, event: EpochFinished) -> Actions:
        return []

    def on_received(self, event: Received) -> Actions:
        raise self.unexpected(event)

    def on_returned(self, event: Returned) -> Actions:
        """Send it again if its channel broke; what a change of members overtook is the business of that change."""
        if event.view != self.view or event.target not in self.members:
            return []
        return [Send(event.target, event.kind, event.clock, event.bucket, event.body, event.weight, event.data)]

    def on_reduced(self, event: Reduced) -> Actions:
        return []

    def on_timer_fired(self, event: TimerFired) -> Actions:
        return []

    def on_members_changed(self, event: MembersChanged) -> Actions:
        return []

    def on_joined(self, event: MembersChanged, newcomers: tuple[NodeId, ...]) -> Actions:
        """Newcomers are members from now on; the world is at rest until they have been welcomed (decision 0040).

        A newcomer hears it of itself, with no `newcomers`.
        """
        if self._is_new or self.me != self.sponsor_of(newcomers):
            return []
        return [action for newcomer in newcomers for action in self.welcome(newcomer)]

    def sponsor_of(self, newcomers: tuple[NodeId, ...]) -> NodeId | None:
        """Who welcomes newcomers, and where they begin: the lowest of the workers that were there before them."""
        return min(set(self.workers).difference(newcomers), default=None)

    @property
    def gives_replica(self) -> bool:
        """A newcomer takes over its sponsor's replica; if not, it begins with a fresh one."""
        return PARAMS in self._inherits

    def welcome(self, newcomer: NodeId) -> Actions:
        """Send a newcomer what it takes over from this node, its sponsor."""
        sends: Actions = [give(newcomer, self.step, buffer) for buffer in self.given()]
        return [*sends, Send(newcomer, WELCOME, self.step, 0, data=self.hand_over())]

    def given(self) -> list[Buffer]:
        """What a sponsor gives of the slots that a newcomer takes over: all, unless servers give some."""
        return [Buffer(slot, bucket) for slot in self._inherits for bucket in range(len(self.world.buckets))]

    def take_bucket(self, into: Buffer, body: Buffer, clock: int) -> Actions:
        """Take over what a sponsor, or a server, has given at its clock."""
        return [copy(into, body)]

    def hand_over(self) -> Data:
        """What a newcomer must know of where the run is; `take_over` is told it."""
        return {"step": self.step}

    def take_over(self, handed: Data) -> Actions:
        """The welcome is complete: begin where the sponsor is."""
        self.step = number(handed, "step")
        return [Compute(self.step)]

    def unexpected(self, event: Received) -> UnexpectedMessage:
        """The error for a message that this protocol does not know."""
        return UnexpectedMessage(
            f"{self.world.name(self.me)} received '{event.kind}' (clock {event.clock}, bucket {event.bucket}) "
            f"from {self.world.name(event.source)}, which {type(self).__name__} does not expect now."
        )


def give(newcomer: NodeId, clock: int, buffer: Buffer) -> Send:
    """Give a newcomer a bucket of a slot that it takes over."""
    return Send(newcomer, WELCOME, clock, buffer.bucket, buffer, data={"slot": buffer.slot})


def number(handed: Data, name: str) -> int:
    """A whole number that was handed over."""
    value = handed[name]
    assert isinstance(value, int)
    return value


def _public(thing: object) -> dict[str, Any]:
    return {name: _plain(value) for name, value in vars(thing).items() if not name.startswith("_")}


def _plain(value: Any) -> Any:
    """Sets as sorted lists, tuples as lists and objects as dicts, so that snapshots compare and serialize."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(_plain(inner) for inner in value)
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return _public(value) if hasattr(value, "__dict__") else value
