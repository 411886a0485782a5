"""Worlds in which anything may come next: workers driven in random order, by the promises of decision 0017 alone.

The simulator orders what happens by time. Here every order can come up that a driver may produce: late news of a change
of members, several changes at once, crashes, scripts that end early, broken channels.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from weft.core.actions import Action, Apply, Combine, Compute, Send
from weft.core.events import EpochFinished, Event, MembersChanged, Received, Returned, Started, StepFinished
from weft.core.names import GRADIENT, INBOX, PARAMS, Buffer
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.testing.peers import TWO

Array = np.ndarray
Move = tuple[Any, ...]

CRASH, BREAK = 0.02, 0.02
"""How often a crash, and the end of one channel, are among what may come next."""


@dataclass
class MessageInFlight:
    """A message under way."""

    number: int
    source: int
    send: Send
    payload: Array | None
    view: int

    @property
    def body(self) -> Buffer | None:
        return None if self.payload is None else Buffer(INBOX, self.send.bucket)


class Node:
    """One worker: its peer, its tensors, and where its script stands."""

    def __init__(self, peer: Any) -> None:
        self.peer = peer
        self.slots: dict[Buffer, Array] = {}
        self.inbox: Array | None = None
        self.view = 0
        self.step = 0
        self.epoch = 0
        self.is_computing = False
        self.is_reporting = False
        self.has_ended = False
        self.has_crashed = False
        self.has_left = False

    @property
    def is_here(self) -> bool:
        return not (self.has_crashed or self.has_left)


class Shuffled:
    """Runs scripts of `num_steps` each until nothing can happen any more; gradients are zero.

    `totals` keeps, after every event, what `measure` says of the whole world.
    """

    def __init__(
        self,
        strategy: Strategy,
        num_steps: Sequence[int],
        seed: int,
        num_crashes: int = 0,
        epoch_steps: int | None = None,
        measure: Any = None,
    ) -> None:
        self.rng = Random(seed)
        self.world = World(strategy.roles(len(num_steps)), TWO, strategy.graph(len(num_steps)))
        self.nodes = [Node(strategy.peer(me, self.world, Random(f"{seed}/{me}"))) for me in self.world.workers]
        draw = np.random.default_rng(seed)
        for node in self.nodes:
            node.slots = {Buffer(PARAMS, b): draw.normal(size=kind.num_elements) for b, kind in enumerate(TWO)}
            for b in range(len(TWO)):
                node.slots[Buffer(PARAMS, b)][0] = 1.0
        self.starts = [node.slots[Buffer(PARAMS, 0)].copy() for node in self.nodes]
        self.channels: dict[tuple[int, int], deque[MessageInFlight]] = {}
        self.views = [self.world.workers]
        self.entries: list[tuple[int, int, Event, Sequence[Action]]] = []
        """As a recording has them; nobody knows the time."""
        self.returning: deque[MessageInFlight] = deque()
        """What its sender is about to be told will never arrive."""
        self.dropped: list[MessageInFlight] = []
        """What the dead had sent and nobody will receive."""
        self.totals: list[float] = []
        self._num_steps, self._num_crashes, self._epoch_steps = num_steps, num_crashes, epoch_steps
        self._measure = measure
        self._num_messages = 0

    def run(self) -> "Shuffled":
        for me in self.world.workers:
            self._tell(me, Started(0))
        while moves := self._moves():
            move, *arguments = self.rng.choice(moves)
            move(*arguments)
        return self

    def waiting(self) -> list[str]:
        """Who could not come to its end, and what it waits for."""
        stuck = [(me, node) for me, node in enumerate(self.nodes) if node.is_here and not node.has_ended]
        return [f"worker {me} waits for {node.peer.waiting_for()}" for me, node in stuck]

    def params(self, me: int, bucket: int = 0) -> Array:
        return self.nodes[me].slots[Buffer(PARAMS, bucket)]

    def under_way(self) -> list[MessageInFlight]:
        return [message for messages in (*self.channels.values(), self.returning) for message in messages]

    def _moves(self) -> list[Move]:
        moves: list[Move] = []
        for (source, target), messages in self.channels.items():
            node = self.nodes[target]
            if messages and node.is_here and messages[0].view == node.view:
                moves.append((self._deliver, source, target))
            if messages and self.nodes[source].is_here and self.rng.random() < BREAK:
                moves.append((self._break, source, target))
        for me, node in enumerate(self.nodes):
            if node.is_here and node.is_computing:
                moves.append((self._finish_step, me))
            if node.is_here and node.view + 1 < len(self.views):
                moves.append((self._change, me))
        running = [me for me in self.views[-1] if self.nodes[me].is_here and not self.nodes[me].has_ended]
        if moves and self._num_crashes and len(running) > 1 and self.rng.random() < CRASH:
            moves.append((self._crash, self.rng.choice(running)))
        crashed = [me for me in self.views[-1] if self.nodes[me].has_crashed]
        if crashed:
            moves.append((self._declare, crashed))
        moves += [(self._leave, me) for me in self.views[-1] if self._may_leave(me)]
        return moves

    def _may_leave(self, me: int) -> bool:
        """Its script has ended, and all that it sent has been received."""
        is_done = self.nodes[me].has_ended and not any(message.source == me for message in self.under_way())
        return is_done and self.nodes[me].is_here and self.nodes[me].view == len(self.views) - 1

    def _leave(self, me: int) -> None:
        self.nodes[me].has_left = True
        self._declare([me])

    def _crash(self, me: int) -> None:
        self._num_crashes -= 1
        self.nodes[me].has_crashed = True

    def _declare(self, gone: list[int]) -> None:
        if len(self.views[-1]) > len(gone):
            self.views.append(tuple(me for me in self.views[-1] if me not in gone))
        else:
            for me in gone:
                self.nodes[me].has_crashed = False
                self.nodes[me].has_left = True

    def _change(self, me: int) -> None:
        """A worker hears of the next view, then of what did not arrive; what the departed sent it never will."""
        node = self.nodes[me]
        node.view += 1
        members = self.views[node.view]
        mine: list[MessageInFlight] = []
        for (source, target), messages in self.channels.items():
            if source == me:
                mine += messages
                messages.clear()
            elif source not in members and target in (me, *(set(self.world.workers) - set(members))):
                self.dropped += messages
                messages.clear()
        self.returning.extend(sorted(mine, key=lambda message: message.number))
        self._tell(me, MembersChanged(node.view, members, "lost"))
        self._return()

    def _break(self, source: int, target: int) -> None:
        self.returning.extend(self.channels[source, target])
        self.channels[source, target].clear()
        self._return()

    def _return(self) -> None:
        while self.returning:
            message = self.returning.popleft()
            send = message.send
            event = Returned(
                send.to, send.kind, send.clock, send.bucket, message.body, send.weight, send.data, message.view
            )
            self._tell(message.source, event, message.payload)

    def _deliver(self, source: int, target: int) -> None:
        message = self.channels[source, target].popleft()
        send = message.send
        event = Received(source, send.kind, send.clock, send.bucket, message.body, send.weight, send.data)
        self._tell(target, event, message.payload)

    def _finish_step(self, me: int) -> None:
        node = self.nodes[me]
        node.is_computing = False
        node.step += 1
        for b, kind in enumerate(TWO):
            node.slots[Buffer(GRADIENT, b)] = np.zeros(kind.num_elements)
        self._tell(me, StepFinished(node.step - 1, 1.0, self.rng.random()))

    def _go_on(self, me: int) -> None:
        """Let the script run: to its report, to its end, or through its next iteration."""
        node = self.nodes[me]
        if self._epoch_steps and node.step == (node.epoch + 1) * self._epoch_steps:
            node.epoch += 1
            node.is_reporting = True
            self._tell(me, EpochFinished(node.epoch - 1, {}))
            return
        node.has_ended = node.step >= self._num_steps[me]
        node.is_computing = not node.has_ended

    def _tell(self, me: int, event: Event, payload: Array | None = None) -> None:
        node = self.nodes[me]
        node.inbox = payload
        actions = node.peer.handle(event, 0.0)
        self.entries.append((0, me, event, actions))
        for action in actions:
            self._perform(me, node, action)
        if self._measure is not None:
            self.totals.append(self._measure(self))
        if node.is_reporting:
            if not node.peer.holds_user:
                node.is_reporting = False
                self._go_on(me)
        elif any(isinstance(action, Compute) for action in actions):
            self._go_on(me)

    def _perform(self, me: int, node: Node, action: Action) -> None:
        if isinstance(action, Send):
            payload = None if action.body is None else self._value(node, action.body).copy()
            self._num_messages += 1
            message = MessageInFlight(self._num_messages, me, action, payload, node.view)
            self.channels.setdefault((me, action.to), deque()).append(message)
        elif isinstance(action, Combine):
            into = node.slots.get(action.into, np.zeros(TWO[action.into.bucket].num_elements))
            kept = action.keep * into if action.keep else np.zeros_like(into)
            node.slots[action.into] = (
                kept if action.add is None else kept + action.scale * self._value(node, action.add)
            )
        elif isinstance(action, Apply):
            node.slots[action.into] = node.slots[action.into] - action.scale * self._value(node, action.gradient)

    def _value(self, node: Node, buffer: Buffer) -> Array:
        if buffer.slot == INBOX:
            assert node.inbox is not None
            return node.inbox
        return node.slots[buffer]
