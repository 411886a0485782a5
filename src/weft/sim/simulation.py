"""The driver in virtual time: hands events to peers and performs what they answer."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from weft.core.actions import (
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
    is_same_message,
    updates_from,
)
from weft.core.errors import Deadlock, IllegalAction, ProtocolError, WeftError
from weft.core.events import (
    EpochFinished,
    Event,
    GradientReady,
    PortionAsked,
    Received,
    Started,
    StepFinished,
    TimerFired,
)
from weft.core.leaving import lost_by
from weft.core.names import INBOX, Buffer, Carries, NodeId
from weft.core.recorder import TraceHash, node_rng
from weft.core.script_state import ENDED, EXIT, IN_REPORT, IN_STEP, JOINED, MOVES, NO_USER, RESUME
from weft.core.strategy import Strategy, all_kinds
from weft.core.world import World
from weft.cost.coding import CodingSpeed
from weft.observe.records.left_out import LeftOut
from weft.sim.coding import CodingTime
from weft.sim.compute import ComputeTime
from weft.sim.delivery import Delivery, DirectDelivery
from weft.sim.facts import Facts
from weft.sim.iterations import Iterations
from weft.sim.kernel import NS_PER_S, Kernel
from weft.sim.liveness import AlwaysAble, Liveness
from weft.sim.network import Network
from weft.sim.node import SimulatedNode
from weft.sim.program import CALLS, BackwardDone, PortionWanted, Program, ReportDone, SaveAsked, StepDone
from weft.sim.reports import Reports
from weft.store.store import Store


class Simulation:
    """Runs one strategy over stores and programs until every script has ended and no message is under way.

    User code runs in an instant of real time when Compute is emitted, so it reads `params` as of then
    (rule 13 of docs/architecture.md); its results become facts after the virtual time that it takes.

    `liveness` and `delivery` make its parts that faults replace, in this order, before there are nodes.
    """

    def __init__(
        self,
        strategy: Strategy,
        world: World,
        stores: Sequence[Store],
        programs: Sequence[Program],
        network: Network,
        compute: ComputeTime,
        reports: Reports,
        seed: int = 0,
        recorder: TraceHash | None = None,
        on_step: Callable[[Facts, float], None] | None = None,
        coding: CodingSpeed | None = None,
        num_cores: int | None = None,
        stretch: Sequence[float] = (),
        liveness: Callable[["Simulation"], Liveness[Any]] = AlwaysAble,
        delivery: Callable[["Simulation"], Delivery[Any]] = DirectDelivery,
    ) -> None:
        self.strategy = strategy
        self.world = world
        self.seed = seed
        self.kernel = Kernel()
        self.facts = Facts(world.num_workers)
        self.network = network
        self.recorder = recorder
        self.nodes: list[SimulatedNode] = []
        self.on_left_out: Callable[[NodeId, LeftOut], None] = lambda worker, left_out: None
        self.holds: Callable[[Any, Compute], bool] | None = None
        """Whether a script has to wait before a step; who holds it calls `begin` later."""
        self.on_begun: Callable[[], None] | None = None
        """Hears that a worker's script was let go on."""
        self.on_ended: Callable[[Any], None] | None = None
        """Hears of each node whose script has ended."""
        self.liveness = liveness(self)
        self.delivery = delivery(self)
        self._compute = self.liveness.slowed(compute)
        self._reports = reports
        self._on_step = on_step
        self._coding = None if coding is None else CodingTime(strategy, world, coding)
        self._rngs = [Random(f"compute/{seed}/{worker}") for worker in world.workers]
        self._kinds = {kind: carries is Carries.GRADIENT for kind, carries in all_kinds(strategy).items()}
        self._inbox = [Buffer(INBOX, bucket) for bucket in range(len(world.buckets))]
        when_able = self.liveness.when_able
        self._fire_if_able = when_able(self._fire)
        self._finish_if_able = when_able(self._finish_step)
        self._ask_if_able = when_able(self._ask_for_portion)
        self.iterations = Iterations(
            self.kernel, self.facts, world, when_able(self._fill), self.liveness.is_gone, num_cores, stretch
        )
        self.nodes += [
            self._new_node(id, world, stores[id], programs[id] if id < world.num_workers else None)
            for id in range(world.num_nodes)
        ]

    def _new_node(self, id: NodeId, world: World, store: Store, program: Program | None) -> SimulatedNode:
        peer = self.strategy.peer(id, world, node_rng(self.seed + world.view, id))
        node: SimulatedNode = self.liveness.new_node(id, peer, store, program)
        if program is not None:
            node.gate = store.guard(id, world.num_workers, self.strategy, partial(self._leave_out, id))
        return node

    def renew(self, id: NodeId, view: int, store: Store, program: Program | None) -> SimulatedNode:
        """Put a new incarnation in a node's place: a fresh peer that begins in this view and has not been told so."""
        node = self.nodes[id] = self._new_node(id, replace(self.world, view=view), store, program)
        return node

    def run(self) -> Facts:
        """Run to the end; raises Deadlock, NodeLost or ProtocolError when it cannot be reached."""
        start = self.liveness.when_able(self.deliver)
        for node in self.nodes:
            self.kernel.at(0, start, (node, Started(self.world.view)))
        self.kernel.run()
        stuck = self.stuck()
        if stuck and not self.kernel.stopped_because:
            raise Deadlock(
                f"nothing can happen any more at {self.kernel.now_s:.6f} s, but {len(stuck)} workers have not ended.\n"
                + self.who_waits()
            )
        for node in stuck:
            self.facts.finished_s[node.id] = self.kernel.now_s
        self._reports.end(self.facts)
        return self.facts

    def stuck(self) -> list[SimulatedNode]:
        """The nodes whose scripts have not ended."""
        return [node for node in self.nodes if self._is_stuck(node)]

    def _is_stuck(self, node: SimulatedNode) -> bool:
        return node.script.at not in (ENDED, NO_USER) and not self.liveness.is_gone(node)

    def who_waits(self) -> str:
        """A line for each node: what it needs to go on."""
        lines = [node.needs(self.world.name(node.id)) for node in self.nodes] + self.delivery.missing()
        return "\n".join(f"  {line}" for line in lines)

    def deliver(self, node: SimulatedNode, event: Event) -> None:
        """Tell a node a fact and perform its answer."""
        now_ns = self.kernel.now_ns
        self.facts.num_events += 1
        actions = node.handle(event, now_ns / NS_PER_S)
        if self.recorder is not None:
            self.recorder.record(now_ns, node.id, event, actions)
        if actions:
            try:
                self._perform(node, actions)
            except ProtocolError as error:
                error.story = error.story or node.peer.story()
                raise
        if node.held and not node.peer.holds_user:
            node.held = False
            if node.report is not None:
                self._keep_report(node)
            elif node.gate is not None:
                node.gate.reduced()
            self._resume(node, is_free=True)

    def receive(self, node: SimulatedNode, event: Received, payload: Any, hyper: Any) -> None:
        """Deliver a message with a body, which is named only while it is answered (rule 5)."""
        node.store.receive(event.body, payload, hyper)
        if self._coding is not None:
            self._coding.decode(node, event, payload, self.kernel.now_ns)
        self.deliver(node, event)
        node.store.receive(None, None, None)

    def _perform(self, node: SimulatedNode, actions: Sequence[Action]) -> None:
        """Perform actions in the order in which they were emitted (rule 6).

        Updates of several buckets by one rule, and the same message to several targets, go together.
        """
        num_actions = len(actions)
        done = 0
        while done < num_actions:
            action = actions[done]
            done += 1
            kind = type(action)
            if kind is Combine:
                node.store.combine(action)  # type: ignore[arg-type]
            elif kind is Send:
                done = self._send(node, actions, done)
            elif kind is Compute:
                if done < num_actions:
                    raise IllegalAction(f"{action} must be the last action of its answer; the user runs at once.")
                if self.holds is None or not self.holds(node, action):  # type: ignore[arg-type]
                    self.begin(node, action)  # type: ignore[arg-type]
            elif kind is Apply:
                done = self._apply(node, actions, done)
            else:
                self._perform_rare(node, action)

    def _perform_rare(self, node: SimulatedNode, action: Action) -> None:
        if isinstance(action, Note):
            self.facts.note(action.name, action.value)
        elif isinstance(action, Encode):
            node.store.encode(action)
            if self._coding is not None:
                self._coding.encode(node, action, self.kernel.now_ns)
        elif isinstance(action, Reduce):
            self.delivery.reduce(node, action)
        elif isinstance(action, SetTimer):
            node.timers[action.name] = generation = node.timers.get(action.name, 0) + 1
            due_ns = max(self.kernel.now_ns, self.liveness.due_ns(node, action.at))
            self.kernel.at(due_ns, self._fire_if_able, (node, action.name, generation))
        elif isinstance(action, Stop):
            self.kernel.stop(action.reason)
        else:
            raise IllegalAction(f"{action!r} is not an action; the vocabulary of core/actions.py is closed.")

    def _fire(self, node: SimulatedNode, name: str, generation: int) -> None:
        if node.timers[name] == generation:
            self.deliver(node, TimerFired(name))

    def _send(self, node: SimulatedNode, actions: Sequence[Action], done: int) -> int:
        """Send the message before `done`, and to whom the same is sent next: captured once, one event for all.

        Returns how many actions are done then.
        """
        first: Send = actions[done - 1]  # type: ignore[assignment]
        body, data, payload, hyper, size = first.body, first.data, None, None, 0
        check_send(first, self._kinds, len(self.nodes))
        if body is not None:
            store = node.store
            size = store.num_bytes(body)
            payload = store.capture(body)
            if self._kinds[first.kind]:
                hyper = store.hyper()
            body = self._inbox[body.bucket] if body.part is None else Buffer(INBOX, body.bucket, body.part)
        event = Received(node.id, first.kind, first.clock, first.bucket, body, first.weight, data)
        self.delivery.post(node, first, event, size, payload, hyper)
        while done < len(actions):
            action = actions[done]
            if type(action) is not Send or not is_same_message(first, action):
                break
            self.delivery.post(node, action, event, size, payload, hyper)
            done += 1
        return done

    def _apply(self, node: SimulatedNode, actions: Sequence[Action], done: int) -> int:
        """Perform the update before `done` with those of other buckets that follow; how many actions are done then."""
        first: Apply = actions[done - 1]  # type: ignore[assignment]
        check_stepped(first, has_stepped=node.script.at is IN_STEP and bool(node.step))
        updates = updates_from(actions, done - 1)
        node.store.apply(updates)
        return done + len(updates) - 1

    def begin(self, node: SimulatedNode, action: Compute) -> None:
        """Let a worker's script run its next iteration."""
        if node.program is None or action.step != node.step:
            raise IllegalAction(
                f"{action} was emitted, but the next step of {self.world.name(node.id)} is {node.step}."
            )
        if node.wanted is not None:
            node.wanted.portion, node.wanted = action.portion, None
            self._resume(node, is_free=False)
        elif action.portion is not None:
            raise IllegalAction(f"{action} names a portion, but no share of {self.world.name(node.id)} asked for one.")
        elif node.script.at in (IN_STEP, JOINED):
            self._resume(node, is_free=False)
        elif node.script.at is not IN_REPORT:
            raise IllegalAction(f"{action} was emitted, but the user's iteration is under way ({node.script.at}).")
        if self.on_begun is not None:
            self.on_begun()

    def _resume(self, node: SimulatedNode, is_free: bool) -> None:
        """Let a worker's script run to its next request, and arrange for what it asked.

        `is_free` says that no action of this node is waiting to be performed, so a fact may be told at once.
        """
        assert node.program is not None
        script = node.script  # moved as ScriptState.call does, but without its call: this is the simulator's inner loop
        while True:
            script.at = MOVES[script.at].get(RESUME) or script.refuse(RESUME)
            node.store.give_params()
            try:
                request = node.program.resume()
            except WeftError:
                raise
            except Exception as error:
                lost = lost_by(self.world.name(node.id), f"at step {node.step}", error)
                raise lost from lost.__cause__
            node.store.forget_captured()
            if request is None:
                self._end_script(node)
                return
            kind = type(request)
            script.at = MOVES[script.at].get(CALLS[kind]) or script.refuse(CALLS[kind])
            if kind is BackwardDone:
                node.store.look_for_writes()
                self._schedule_gradients(node, request.samples)  # type: ignore[union-attr]
                return
            if kind is StepDone:
                node.store.refuse_writes()
                if is_free:
                    self._finish_if_able(node, request)  # type: ignore[arg-type]
                else:
                    self.kernel.at(self.kernel.now_ns, self._finish_if_able, (node, request))
                return
            if kind is PortionWanted:
                node.store.refuse_writes()
                self.kernel.at(self.kernel.now_ns, self._ask_if_able, (node, request))
                return
            if isinstance(request, SaveAsked):
                node.store.refuse_writes()
                self._reports.save(node.id, request)
            elif not self._take_report(node, request):  # type: ignore[arg-type]
                return

    def _end_script(self, node: SimulatedNode) -> None:
        node.script.call(EXIT)
        self.facts.finished_s[node.id] = self.kernel.now_s
        if self.on_ended is not None:
            self.on_ended(node)

    def _schedule_gradients(self, node: SimulatedNode, samples: float) -> None:
        fresh, node.samples = samples - node.samples, samples
        self.iterations.begin(node, self._compute.seconds(node.id, node.step, fresh, self._rngs[node.id]), samples)

    def _fill(self, node: SimulatedNode, event: GradientReady, is_last: bool) -> None:
        node.held = is_last
        self.deliver(node, node.weighed(event))

    def _finish_step(self, node: SimulatedNode, request: StepDone) -> None:
        now_s, samples, loss = self.kernel.now_ns / NS_PER_S, request.samples, request.loss
        if node.gate is not None:
            samples, loss = node.gate.finish(node.step, samples, loss)
            node.gate.end()
        self.facts.step(node.id, now_s, 0.0 if request.is_repeat else samples, loss)
        self._reports.remember(node.id, loss)
        if self._on_step is not None:
            self._on_step(self.facts, now_s)
        step, node.step = node.step, node.step + 1
        node.samples = 0.0
        self.deliver(node, StepFinished(step, samples, loss))

    def _leave_out(self, worker: NodeId, left_out: LeftOut) -> None:
        self.facts.left_out[worker] = left_out.num_steps
        self.on_left_out(worker, left_out)

    def _ask_for_portion(self, node: SimulatedNode, request: PortionWanted) -> None:
        node.wanted, node.samples = request, 0.0
        self.deliver(node, PortionAsked(request.share, request.num_portions))

    def _take_report(self, node: SimulatedNode, request: ReportDone) -> bool:
        """Tell the peer of an epoch's first report; keep it, and True, when the peer lets the user go on."""
        node.report = request
        numbers = self._reports.own_numbers(node.id, request)
        if request.epoch >= node.epoch:
            node.epoch = request.epoch + 1
            self.deliver(node, EpochFinished(request.epoch, numbers))
        if node.peer.holds_user:
            node.held = True
            return False
        self._keep_report(node)
        return True

    def _keep_report(self, node: SimulatedNode) -> None:
        assert node.report is not None
        request, node.report = node.report, None
        self._reports.add(node.id, request, self.kernel.now_s, self.facts)
