"""The driver of real runs: tells the peers of one process events and performs the actions they answer with.

One thread at a time drives, holding the seat's lock: the script's thread while the script waits in a call, the
background driver while the script computes.
"""

import heapq
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

from weft.core.actions import (
    INNER,
    Action,
    Apply,
    Combine,
    Compute,
    Encode,
    Note,
    Reduce,
    Send,
    SetTimer,
    Stop,
    check_send,
    check_stepped,
    updates_from,
)
from weft.core.errors import IllegalAction, ProtocolError
from weft.core.events import Event, Received, Reduced, Returned, Started, TimerFired
from weft.core.names import INBOX, PARAMS, Buffer, Carries, NodeId
from weft.core.peer import Peer
from weft.core.recorder import TraceHash, node_rng
from weft.core.script_state import EXIT, IN_STEP, READS_PARAMS, RESUME
from weft.core.strategy import Strategy, all_kinds
from weft.core.world import World
from weft.runtime.mailbox import Mailbox
from weft.runtime.measure.tracer import Tracer
from weft.runtime.shared_params import SharedParams
from weft.runtime.view_change import ViewChange
from weft.store.live import LiveStore

Payload = Any

MAIL_EVERY_S = 50e-6
"""How often `hurry` looks for messages while reductions wait for words of shared memory; a look takes 1 to 3 us."""


class Reducing(Protocol):
    """Performs reductions natively. Never blocks: `progress` is called again when something may have changed."""

    needs_background: bool
    """Whether other processes may wait for this one's answers while its script computes."""
    bytes_shared: int
    num_copies: int

    def join(self, action: Reduce) -> None: ...

    def progress(self, deliver: Callable[[Reduced], None]) -> bool: ...

    def may_move(self) -> bool:
        """A cheap look: False if `progress` could do nothing before other workers write words of shared memory."""

    def settle(self, deliver: Callable[[Reduced], None]) -> bool:
        """Tell of the reductions that have ended for all, lost workers too, while the view changes; whether any had."""

    def change_members(self, members: Sequence[NodeId], view: int) -> None:
        """Forget what is under way: from now on the workers `members` reduce."""

    def may_rest(self) -> bool:
        """Whether the background driver may sleep until the script's next call: no other process needs it before."""

    def say_ended(self) -> None: ...

    def check_alive(self) -> None: ...

    def waits_for(self) -> list[int]: ...

    def close(self) -> None: ...


class Wanted:
    """A request of a share for its next portion; `portion` is the answer, None if the share is over."""

    __slots__ = ("portion",)

    def __init__(self) -> None:
        self.portion: int | None = None


class DrivenNode:
    """A node of this process: its peer, its store, and the events and actions put off until its script waits."""

    def __init__(self, id: NodeId, peer: Peer, store: LiveStore) -> None:
        self.id = id
        self.peer = peer
        self.store = store
        self.script = store.script
        self.computes: int | None = None
        """The step that the peer has let the script begin."""
        self.wanted: Wanted | None = None
        """The open request of the script's share for a portion."""
        self.put_off: deque[Callable[[], None]] = deque()
        """Events, and the rest of an answer, that may only be performed while the script waits."""
        self.timers: dict[str, int] = {}
        self.has_left = False
        """Its script has ended and the others have gone on without it: nothing is told to it any more."""


class Driver:
    """Drives all nodes of one process: its worker, and the servers that it hosts."""

    def __init__(
        self,
        strategy: Strategy,
        world: World,
        stores: Mapping[NodeId, LiveStore],
        mailbox: Mailbox,
        seed: int,
        recorder: TraceHash | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        self.world = world
        self._strategy, self._seed = strategy, seed
        self._tracer = tracer
        self._kinds = {kind: carries is Carries.GRADIENT for kind, carries in all_kinds(strategy).items()}
        self._mailbox = mailbox
        self._recorder = recorder
        self._began = time.perf_counter()
        self.nodes = {
            id: DrivenNode(id, strategy.peer(id, world, node_rng(seed, id)), store) for id, store in stores.items()
        }
        self.make_store: Callable[[NodeId], LiveStore]
        """Makes the store of a server that is moved to this process."""
        self.worker = self.nodes[min(self.nodes)]
        self.reduce: Reducing | None = None
        self.shared_params: SharedParams | None = None
        """The shared update, where the workers of a host have one copy of the parameters."""
        self._local: deque[tuple[DrivenNode, Received, Payload, Any]] = deque()
        """Messages between nodes of this process, which no transport carries."""
        self.view_change = ViewChange(self, mailbox)
        self._due: list[tuple[float, int, DrivenNode, str]] = []
        self._num_timers = 0
        self._mail_due = 0.0
        """When `hurry` looks for messages next."""
        self.stopped_because: str | None = None
        self.num_events = 0
        self.notes: dict[str, list[float]] = {}
        """Count, sum and maximum of the values noted (action `Note`), by name."""
        self.ages: Counter[int] = Counter()
        """Histogram of staleness: number of updates by their age in whole steps."""
        mailbox.open(self._receive_from_afar, {id: node.store for id, node in self.nodes.items()})

    @property
    def now_s(self) -> float:
        return time.perf_counter() - self._began

    def start(self) -> None:
        """Tell all peers `Started`."""
        for node in self.nodes.values():
            self.deliver(node, Started(self.world.view))

    def progress(self) -> bool:
        """Deliver local messages, reductions, frames and timers that are ready; False if there were none."""
        self._mail_due = 0.0
        return self.hurry()

    def hurry(self) -> bool:
        """As `progress`; but while nothing is missing except words of shared memory, messages and timers are looked at
        every MAIL_EVERY_S only. Not enough before a sleep."""
        moved = self.deliver_local() if self._local else False
        if self.view_change.is_on:
            return self.view_change.progress() or moved
        now, reduce = time.perf_counter(), self.reduce
        if reduce is not None:
            if reduce.progress(self.reduced):
                moved = True
            if now < self._mail_due and (moved or not reduce.may_move()):
                return moved
        self._mail_due = now + MAIL_EVERY_S
        if self._mailbox.poll():
            moved = True
        while self._due and self._due[0][0] <= self.now_s:
            _, generation, node, name = heapq.heappop(self._due)
            if node.timers[name] == generation:
                self.deliver(node, TimerFired(name))
            moved = True
        return moved

    def may_move(self) -> bool:
        """A cheap look, False if `hurry` would do nothing now."""
        if self.view_change.is_on or self.reduce is None or self.reduce.may_move():
            return True
        return time.perf_counter() >= self._mail_due

    def host(self, server: NodeId, view: int) -> DrivenNode:
        """Start a server of a lost process anew: its peer is a fresh one, which asks the workers for what they have."""
        peer = self._strategy.peer(server, replace(self.world, view=view), node_rng(self._seed, server))
        node = self.nodes[server] = DrivenNode(server, peer, self.make_store(server))
        return node

    def deliver_local(self) -> bool:
        """Deliver the messages between nodes of this process; False if there were none."""
        moved = bool(self._local)
        while self._local:
            node, event, payload, hyper = self._local.popleft()
            since_s = time.perf_counter()
            self.receive(node, event, payload, hyper)
            if self._tracer is not None:
                size = 0 if payload is None else payload.nbytes
                self._tracer.received(event.source, node.id, event.kind, event.clock, size, since_s)
        return moved

    @property
    def is_idle(self) -> bool:
        """Nothing waits to be told or performed."""
        return not self._local and not any(node.put_off or node.peer.holds_user for node in self.nodes.values())

    @property
    def next_due_s(self) -> float | None:
        """Seconds until the next timer is due; None without timers."""
        return self._due[0][0] - self.now_s if self._due else None

    def reduced(self, event: Reduced) -> None:
        self.deliver(self.worker, event)

    def _receive_from_afar(self, target: NodeId, event: Received, payload: Payload, hyper: Any) -> None:
        self.receive(self.nodes[target], event, payload, hyper)

    def receive(self, node: DrivenNode, event: Received | Returned, payload: Payload, hyper: Any) -> None:
        """Deliver a message that came, or came back; its body can be named only in the peer's answer (rule 5 of
        docs/architecture.md)."""
        if node.put_off:
            own = None if payload is None else payload.copy()
            node.put_off.append(lambda: self.receive(node, event, own, hyper))
            return
        node.store.receive(event.body, payload, hyper)
        self.deliver(node, event)
        node.store.receive(None, None, None)

    def deliver(self, node: DrivenNode, event: Event) -> None:
        """Tell a node's peer an event and perform its answer."""
        if node.has_left:
            return
        if node.put_off:
            node.put_off.append(lambda: self.deliver(node, event))
            return
        now_s = time.perf_counter() - self._began
        self.num_events += 1
        if self._recorder is not None:
            now_ns = round(now_s * 1e9)
            now_s = now_ns / 1_000_000_000
        actions = node.peer.handle(event, now_s)
        if self._recorder is not None:
            self._recorder.record(now_ns, node.id, event, actions)
        try:
            self._perform(node, actions, 0)
        except ProtocolError as error:
            error.story = error.story or node.peer.story()
            raise

    def _perform(self, node: DrivenNode, actions: Sequence[Action], done: int) -> None:
        """Perform actions in the order in which they were emitted (rule 6)."""
        while done < len(actions):
            action = actions[done]
            if isinstance(action, Combine):
                self._combine(node, action)
            elif isinstance(action, Send):
                self._send(node, action)
            elif isinstance(action, Reduce):
                self._reduce(action)
            elif isinstance(action, Encode):
                node.store.encode(action)
            elif isinstance(action, Compute):
                self._compute(node, action, is_last=done == len(actions) - 1)
            elif isinstance(action, Apply):
                if action.rule == INNER and node.script.at in READS_PARAMS:
                    self._put_off(node, actions, done)
                    return
                done += self._apply(node, updates_from(actions, done)) - 1
            else:
                self._perform_rare(node, action)
            done += 1

    def _combine(self, node: DrivenNode, action: Combine) -> None:
        """Combine tensors. What a newcomer is given of parameters that all share is there already."""
        into = action.into
        if self.shared_params is None or into.slot != PARAMS or not self.world.buckets[into.bucket].trainable:
            node.store.combine(action)

    def _put_off(self, node: DrivenNode, actions: Sequence[Action], done: int) -> None:
        """Keep the rest of an answer until the script waits: `inner` is the script's own optimizer, which writes to the
        memory that the script reads."""
        body, payload, hyper = node.store.received()

        def go_on() -> None:
            node.store.receive(body, payload, hyper)
            self._perform(node, actions, done)
            node.store.receive(None, None, None)

        node.put_off.append(go_on)

    @contextmanager
    def script_waits(self, call: str, then: str = RESUME, *, refuses_writes: bool = True) -> Iterator[DrivenNode]:
        """A context in which the worker's script waits in `call`; afterwards it sees what was written meanwhile.

        First performs what was put off while the script ran. The script's state moves by `call` now and by `then` at
        the end, or by RESUME if the context raises.
        """
        node = self.worker
        node.script.call(call)
        try:
            node.store.stop_user(refuses_writes=refuses_writes)
            self._catch_up()
            yield node
            node.store.let_user_run()
        except BaseException:
            node.script.call(RESUME)
            raise
        node.script.call(then)

    def end_script(self) -> None:
        """The worker's script has ended: perform what was put off; from now on nothing is put off."""
        self.worker.script.call(EXIT)
        self.worker.store.stop_user()
        self._catch_up()

    def _catch_up(self) -> None:
        """The script waits: perform what was put off, in order."""
        waiting, self.worker.put_off = self.worker.put_off, deque()
        for go_on in waiting:
            go_on()

    def _apply(self, node: DrivenNode, updates: list[Apply]) -> int:
        check_stepped(updates[0], has_stepped=node.script.at is IN_STEP)
        if self.shared_params is None:
            node.store.apply(updates)
        else:
            self.shared_params.update(lambda: node.store.apply(updates))
        return len(updates)

    def _compute(self, node: DrivenNode, action: Compute, *, is_last: bool) -> None:
        if not is_last:
            raise IllegalAction(f"{action} must be the last action of its answer; the user runs at once.")
        if action.portion is not None and node.wanted is None:
            raise IllegalAction(f"{action} names a portion, but no share of {self.world.name(node.id)} asked for one.")
        node.computes = action.step
        if node.wanted is not None:
            node.wanted.portion, node.wanted = action.portion, None

    def _perform_rare(self, node: DrivenNode, action: Action) -> None:
        if isinstance(action, Note):
            count, total, most = self.notes.get(action.name, (0.0, 0.0, action.value))
            self.notes[action.name] = [count + 1, total + action.value, max(most, action.value)]
            if action.name == "staleness":
                self.ages[int(action.value)] += 1
        elif isinstance(action, SetTimer):
            node.timers[action.name] = self._num_timers = self._num_timers + 1
            heapq.heappush(self._due, (action.at, self._num_timers, node, action.name))
        elif isinstance(action, Stop):
            self.stopped_because = action.reason
        else:
            raise IllegalAction(f"{action!r} is not an action; the vocabulary of core/actions.py is closed.")

    def _reduce(self, action: Reduce) -> None:
        if self.reduce is None:
            raise IllegalAction(f"{action} cannot be performed natively here; run the strategy over a collective.")
        if not self.view_change.is_on:  # else it never happens, and is asked for again in the new view
            self.reduce.join(action)

    def _send(self, node: DrivenNode, action: Send) -> None:
        check_send(action, self._kinds, self.world.num_nodes)
        store, body = node.store, action.body
        hyper = store.hyper() if body is not None and self._kinds[action.kind] else None
        if action.to in self.nodes:
            payload = None if body is None else store.operand(body).copy()
            event = Received(
                node.id,
                action.kind,
                action.clock,
                action.bucket,
                None if body is None else Buffer(INBOX, body.bucket, body.part),
                action.weight,
                action.data,
            )
            self._local.append((self.nodes[action.to], event, payload, hyper))
            if self._tracer is not None:
                size, now_s = 0 if payload is None else payload.nbytes, time.perf_counter()
                self._tracer.sent(node.id, action.to, action.kind, action.clock, size, now_s)
        elif self.view_change.is_on:
            self.view_change.keep(node.id, action, None if body is None else store.operand(body).copy(), hyper)
        else:
            operand = None if body is None else store.operand(body)
            is_lent = body is not None and operand is not None and store.may_lend(body, operand)
            self._mailbox.send(node.id, action, operand, hyper, is_lent=is_lent)
