"""Steps that close on all servers at once: the same contributions count everywhere, or nowhere.

A worker's gradient is spread over the servers, and the worker may be lost when only some of them have their part. So
the first server decides: the others tell it whose gradients they have whole, and when enough are whole everywhere it
closes the step and names its members; every server applies exactly those, and answers them. A gradient that is whole
everywhere when its step is closed is late: the first server lets its worker go on with the open step. All servers do
what the first says in the order in which it says it, so a worker gets the same version from all of them.
A change of members undoes what was not closed (server_agreement.py).
"""

from collections.abc import Iterable, Mapping
from random import Random

from weft.core.actions import Apply, Combine, Note, Send, rescale
from weft.core.events import Data, Received
from weft.core.names import Buffer, Carries, NodeId
from weft.core.peer import Actions
from weft.core.world import World
from weft.strategies.parts.server_agreement import AGREEMENT_KINDS, AgreeingServer
from weft.strategies.parts.shards import KINDS, ShardWorker

SUM = "closing.sum"
WHOLE = "whole"
CLOSE = "close"
RELEASE = "release"

ATOMIC_STEP_KINDS: Mapping[str, Carries] = {
    **KINDS,
    **AGREEMENT_KINDS,
    **dict.fromkeys((WHOLE, CLOSE, RELEASE), Carries.NOTHING),
}


def named(workers: Iterable[NodeId]) -> str:
    """Workers as bits in hexadecimal, which is small enough for a message in any world."""
    return f"{sum(1 << worker for worker in workers):x}"


def workers_of(text: object) -> set[NodeId]:
    """The workers that `named` names."""
    bits = int(str(text), 16)
    return {worker for worker in range(bits.bit_length()) if bits >> worker & 1}


class AtomicStepWorker(ShardWorker):
    """Its pushes say on which version of the parameters they were computed; on the oldest, if they differ."""

    def push_clock(self, step: int) -> int:
        return min(self.versions.values())


class AtomicStepServer(AgreeingServer):
    """Bulk-synchronous: a step closes when every worker's gradient is whole everywhere."""

    def __init__(self, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(me, world, rng)
        self.pushed: dict[NodeId, int] = {}
        """The clock of each worker's pushes that wait for a close."""
        self.samples: dict[NodeId, float] = {}
        self.num_pushed: dict[NodeId, int] = {}
        """Of how many buckets they are."""
        self.whole: set[NodeId] = set()
        """The workers whose pushes are here for every bucket."""
        self.whole_at: dict[NodeId, set[NodeId]] = {}
        """What the other servers said of that; only the first is told."""
        self.begun: set[int] = set()
        """The buckets whose sum has begun."""
        self.carried: dict[NodeId, int] = {}
        """The clock of late gradients that are kept for the next close."""
        self.turn = 0
        """How many orders of the first server were done since the last change of members."""

    # What the ways of closing differ in.

    def num_needed(self) -> int:
        """How many gradients close a step."""
        return len(self.workers)

    def num_told(self) -> int:
        """How many must be whole here before it matters."""
        return self.num_needed()

    def keep(self, event: Received) -> Actions:
        """Keep a push for its close."""
        kept = 1.0 if event.bucket in self.begun else 0.0
        self.begun.add(event.bucket)
        return [Combine(Buffer(SUM, event.bucket), kept, event.body, event.weight)]

    def mean(self, members: list[NodeId]) -> Actions:
        """Make SUM the weighted mean of the members' gradients; nothing if nobody had samples."""
        total = sum(self.samples[worker] for worker in members)
        return [rescale(Buffer(SUM, bucket), 1.0 / total) for bucket in self._mine] if total else []

    def scale(self, members: list[NodeId]) -> float:
        """By how much of the learning rate their mean is applied."""
        return 1.0

    def carry(self, workers: list[NodeId]) -> Actions:
        """Keep late gradients for the next close, or drop them."""
        return []

    # A step.

    def on_push(self, event: Received) -> Actions:
        worker, clock = event.source, event.clock
        if clock < self.floor:
            return [self.answer(worker, event.bucket)]
        if clock > self.clock or self.pushed.get(worker, clock) != clock or worker in self.whole:
            raise self.unexpected(event)
        self.pushed[worker] = clock
        self.samples[worker] = event.weight
        self.num_pushed[worker] = self.num_pushed.get(worker, 0) + 1
        actions = self.keep(event)
        if self.num_pushed[worker] == len(self._mine):
            self.whole.add(worker)
            actions += self.tell_whole()
        return actions

    def tell_whole(self) -> Actions:
        """Tell the first server who is whole here, once that matters; it decides."""
        if not self.whole or len(self.whole) < self.num_told():
            return []
        if not self.is_first:
            return [Send(self._first, WHOLE, self.turn, 0, data={"workers": named(self.whole)})]
        whole = self.whole_everywhere()
        late = {worker for worker in whole if self.pushed[worker] < self.clock}
        actions: Actions = []
        if late:
            actions += self._order(RELEASE, {"workers": named(late)})
            actions += self._release(late)
        members = whole - late
        if members and len(members) >= self.num_needed():
            self.last = {"members": named(members), "carried": named(self.carried)}
            actions += self._order(CLOSE, self.last)
            actions += self.close()
        return actions

    def whole_everywhere(self) -> set[NodeId]:
        """The workers whose pushes are with every server."""
        return self.whole.intersection(*(self.whole_at.get(server, ()) for server in self._others))

    def _order(self, kind: str, data: Data) -> Actions:
        """What the first server does it tells the others, who do the same in the same order."""
        return [Send(server, kind, self.clock, 0, data=data) for server in self._others]

    def close(self) -> Actions:
        """Apply the gradients that `last` names, and answer the members."""
        members = self._among_pushed(workers_of(self.last["members"]))
        return [*self._apply(members), *self._let_go(members)]

    def _release(self, workers: set[NodeId]) -> Actions:
        """Let workers whose gradients are late go on with the open step."""
        late = self._among_pushed(workers)
        return [*self.carry(late), *self._let_go(late)]

    def _among_pushed(self, workers: set[NodeId]) -> list[NodeId]:
        """These workers in the order in which their pushes came."""
        return [worker for worker in self.pushed if worker in workers]

    def _apply(self, members: list[NodeId]) -> Actions:
        """The update of the step that closes, with exactly the gradients of its members and those that are carried."""
        clocks = [*(self.pushed[worker] for worker in members), *self.carried.values()]
        actions: Actions = [Note("staleness", self.clock - clock) for clock in clocks]
        mean = self.mean(members)
        if mean:
            actions += mean
            scale = self.scale(members)
            actions += [Apply(Buffer(SUM, b), self.world.params[b], scale=scale) for b in self._mine]
        self.clock += 1
        self.versions = dict.fromkeys(self._mine, self.clock)
        self.begun.clear()
        self.carried.clear()
        return actions

    def _let_go(self, workers: list[NodeId]) -> Actions:
        """Answer these workers: an order of the first server is done."""
        for worker in workers:
            del self.pushed[worker], self.samples[worker], self.num_pushed[worker]
        self.whole.difference_update(workers)
        self.whole_at.clear()
        self.turn += 1
        actions: Actions = [self.answer(worker, bucket) for bucket in self._mine for worker in workers]
        return actions if self.is_first else actions + self.tell_whole()

    def on_other(self, event: Received) -> Actions:
        data, from_first = event.data, event.source == self._first
        if event.kind == WHOLE and self.is_first and data is not None:
            if event.clock == self.turn:  # it has done all orders so far
                self.whole_at[event.source] = workers_of(data["workers"])
            return self.tell_whole()
        if event.kind == CLOSE and from_first and data is not None and event.clock == self.clock:
            self.last = data
            return self.close()
        if event.kind == RELEASE and from_first and data is not None and event.clock == self.clock:
            return self._release(workers_of(data["workers"]))
        return super().on_other(event)

    # A change of members.

    def make_up(self, last: Data) -> Actions:
        members, carried = workers_of(last["members"]), workers_of(last["carried"])
        if not members <= self.whole or not carried <= self.whole | set(self.carried):
            return []  # the server was moved since
        missed = carried - set(self.carried)
        return [*self.carry(self._among_pushed(missed)), *self._apply(self._among_pushed(members))]

    def begin_again(self) -> None:
        for forgotten in (self.pushed, self.samples, self.num_pushed, self.whole, self.whole_at, self.begun):
            forgotten.clear()
        self.carried.clear()
        self.turn = 0

    def waiting_for(self) -> str:
        if self.is_ready and self.pushed:
            slow = ", ".join(str(worker) for worker in self.workers if worker not in self.whole)
            return f"workers {slow} to push step {self.clock}; {len(self.whole)} gradients wait for the step to close"
        return super().waiting_for()
