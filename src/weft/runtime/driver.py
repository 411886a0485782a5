"""The driver for real: tells the nodes of one process what happened and performs what they answer.

One thread at a time: the script's thread drives while it waits, a background driver while the script computes.
"""

import heapq
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from weft.core.events import Event, Received, Reduced, Started, TimerFired
from weft.core.names import INBOX, Buffer, Carries, NodeId
from weft.core.peer import Peer
from weft.core.recorder import TraceHash, node_rng
from weft.core.script_state import EXIT, IN_STEP, READS_PARAMS, RESUME
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.runtime.mailbox import Mailbox
from weft.runtime.measure.tracer import Tracer
from weft.runtime.shared_params import SharedParams
from weft.store.live import LiveStore

Payload = Any


class Reducing(Protocol):
    """Who does the reductions natively. Never waits: `progress` is called again when something may have changed."""

    needs_background: bool
    """Others wait for its answers while the script computes, at least now and then."""
    bytes_shared: int
    num_copies: int

    def join(self, action: Reduce) -> None: ...

    def progress(self, deliver: Callable[[Reduced], None]) -> bool: ...

    def may_rest(self) -> bool:
        """Nothing can happen now before the script brings something."""

    def say_ended(self) -> None: ...

    def check_alive(self) -> None: ...

    def waits_for(self) -> list[int]: ...

    def close(self) -> None: ...


class Wanted:
    """A portion that a share has asked for; None: the share is over."""

    __slots__ = ("portion",)

    def __init__(self) -> None:
        self.portion: int | None = None


class DrivenNode:
    """A node of this process: its peer and tensors, and what waits until its script lets it go on."""

    def __init__(self, id: NodeId, peer: Peer, store: LiveStore) -> None:
        self.id = id
        self.peer = peer
        self.store = store
        self.script = store.script
        self.computes: int | None = None
        """The step that the peer has let the script begin."""
        self.wanted: Wanted | None = None
        """The portion that the script's share has asked for."""
        self.put_off: deque[Callable[[], None]] = deque()
        """Facts, and the rest of an answer, that may only go on when the script does not run."""
        self.timers: dict[str, int] = {}


class Driver:
    """All nodes of one process: that of its worker, and of servers that sit here."""

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
        self._tracer = tracer
        self._kinds = {kind: carries is Carries.GRADIENT for kind, carries in strategy.kinds().items()}
        self._mailbox = mailbox
        self._recorder = recorder
        self._began = time.perf_counter()
        self.nodes = {
            id: DrivenNode(id, strategy.peer(id, world, node_rng(seed, id)), store) for id, store in stores.items()
        }
        self.worker = self.nodes[min(self.nodes)]
        self.reduce: Reducing | None = None
        self.shared_params: SharedParams | None = None
        """Where several workers update one copy of the parameters together."""
        self._local: deque[tuple[DrivenNode, Received, Payload, Any]] = deque()
        """Messages between nodes of this process."""
        self._due: list[tuple[float, int, DrivenNode, str]] = []
        self._num_timers = 0
        self.stopped_because: str | None = None
        self.num_events = 0
        self.notes: dict[str, list[float]] = {}
        """Of each noted name: how many, their sum, the greatest."""
        self.ages: Counter[int] = Counter()
        """How many updates were how many whole steps old."""
        mailbox.open(self._receive_from_afar, {id: node.store for id, node in self.nodes.items()})

    @property
    def now_s(self) -> float:
        return time.perf_counter() - self._began

    def start(self) -> None:
        """Begin."""
        for node in self.nodes.values():
            self.deliver(node, Started(self.world.view))

    def progress(self) -> bool:
        """Do what can be done now; False if there was nothing."""
        moved = False
        while self._local:
            node, event, payload, hyper = self._local.popleft()
            since_s = time.perf_counter()
            self._receive(node, event, payload, hyper)
            if self._tracer is not None:
                size = 0 if payload is None else payload.nbytes
                self._tracer.received(event.source, node.id, event.kind, event.clock, size, since_s)
            moved = True
        if self.reduce is not None and self.reduce.progress(self._reduced):
            moved = True
        if self._mailbox.poll():
            moved = True
        while self._due and self._due[0][0] <= self.now_s:
            _, generation, node, name = heapq.heappop(self._due)
            if node.timers[name] == generation:
                self.deliver(node, TimerFired(name))
            moved = True
        return moved

    @property
    def next_due_s(self) -> float | None:
        """How long until a timer comes due."""
        return self._due[0][0] - self.now_s if self._due else None

    def _reduced(self, event: Reduced) -> None:
        self.deliver(self.worker, event)

    def _receive_from_afar(self, target: NodeId, event: Received, payload: Payload, hyper: Any) -> None:
        self._receive(self.nodes[target], event, payload, hyper)

    def _receive(self, node: DrivenNode, event: Received, payload: Payload, hyper: Any) -> None:
        """Deliver a message, whose body is named only while it is answered (rule 5 of docs/architecture.md)."""
        if node.put_off:
            own = None if payload is None else payload.copy()
            node.put_off.append(lambda: self._receive(node, event, own, hyper))
            return
        node.store.receive(event.body, payload, hyper)
        self.deliver(node, event)
        node.store.receive(None, None, None)

    def deliver(self, node: DrivenNode, event: Event) -> None:
        """Tell a node a fact and perform its answer."""
        if node.put_off:
            node.put_off.append(lambda: self.deliver(node, event))
            return
        now_s = self.now_s
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
                node.store.combine(action)
            elif isinstance(action, Send):
                self._send(node, action)
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

    def _put_off(self, node: DrivenNode, actions: Sequence[Action], done: int) -> None:
        """Perform the rest when the script waits: its optimizer acts on the very memory that the script reads."""
        body, payload, hyper = node.store.received()

        def go_on() -> None:
            node.store.receive(body, payload, hyper)
            self._perform(node, actions, done)
            node.store.receive(None, None, None)

        node.put_off.append(go_on)

    @contextmanager
    def script_waits(self, call: str, then: str = RESUME, *, refuses_writes: bool = True) -> Iterator[DrivenNode]:
        """The worker's script waits in a call, and sees afterwards what was written meanwhile.

        Before, what was put off while it ran is done. The script moves by `call` now and by `then` in the end; a call
        that fails lets it go on where it was.
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
        """The worker's script has ended: what was put off is done, and nothing is any more."""
        self.worker.script.call(EXIT)
        self.worker.store.stop_user()
        self._catch_up()

    def _catch_up(self) -> None:
        """The script waits: go on with what was put off."""
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
        elif isinstance(action, Reduce):
            if self.reduce is None:
                raise IllegalAction(f"{action} has nobody to do it here; run the strategy over a collective.")
            self.reduce.join(action)
        elif isinstance(action, SetTimer):
            node.timers[action.name] = self._num_timers = self._num_timers + 1
            heapq.heappush(self._due, (action.at, self._num_timers, node, action.name))
        elif isinstance(action, Stop):
            self.stopped_because = action.reason
        else:
            raise IllegalAction(f"{action!r} is not an action; the vocabulary of core/actions.py is closed.")

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
        else:
            self._mailbox.send(node.id, action, None if body is None else store.operand(body), hyper)
