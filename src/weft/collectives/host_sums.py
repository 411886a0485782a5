"""Reductions of sums of hosts: the workers of a host give theirs to its first one, and the first ones reduce them.

It is for codecs: what a host says is coded once, however many workers it has, and so is what it is told. Within a host
nothing is coded.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from weft.collectives.lowering import hosts_of
from weft.collectives.wrapping import Wrapped, WrappingPeer
from weft.core.actions import MAX, Action, Combine, Reduce, Send, copy
from weft.core.errors import IllegalAction
from weft.core.events import MembersChanged, Received, Reduced, Returned
from weft.core.names import Buffer, Carries, NodeId, Role, Slot
from weft.core.peer import Actions, Peer
from weft.core.schedule import first_of_each
from weft.core.world import World

NAME = "host"
SUM = f"{NAME}.sum"
"""Where the first worker of a host adds up what its workers give, and gets what the hosts have reduced."""
UP, DOWN = f"{NAME}.up.", f"{NAME}.down."
"""What the kinds of messages within a host begin with: to its first worker, and from it."""

Key = tuple[str, int, int]
"""Which Reduce a message belongs to: kind, clock, bucket."""


@dataclass(frozen=True)
class HostSums(Wrapped):
    """`inner`, with every Reduce of these kinds asked for by the first worker of each host, for all of its host.

    Assumes: a Reduce is of all workers, none of which is lost. A sum dies with the worker that makes it, so runs that
    go on without lost workers reduce among all of them.
    """

    summed: tuple[str, ...]

    def slots(self, role: Role, world: World) -> tuple[Slot, ...]:
        if role is not Role.WORKER:
            return self.inner.slots(role, world)
        hosts = hosts_of(world, world.workers)
        others = max(map(hosts.count, hosts)) - 1
        return (*self.inner.slots(role, world), Slot(SUM), *(Slot(came(number)) for number in range(1, others + 1)))

    def kinds(self) -> Mapping[str, Carries]:
        return {**self.inner.kinds(), **{way + kind: Carries.EXACT for kind in self.summed for way in (UP, DOWN)}}

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        return HostSumsPeer(self, self.inner.peer(me, world, rng), me, world, rng)


def came(number: int) -> str:
    """Where what the worker of this number of the host gives waits. It gives no more before it has got the result."""
    return f"{NAME}.from.{number}"


class HostReduce:
    """One Reduce under way, or about to begin here."""

    def __init__(self) -> None:
        self._reduce: Reduce | None = None
        self.weights: dict[NodeId, float] = {}
        """On the first worker: of what the workers of its host have given."""


class HostSumsPeer(WrappingPeer):
    """Wraps a peer; of the first worker of a host, or of another one."""

    def __init__(self, recipe: HostSums, inner: Peer, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(inner, me, world, rng)
        self._summed = frozenset(recipe.summed)
        hosts = hosts_of(world, world.workers)
        self._firsts = tuple(first_of_each(hosts))
        """The first workers of all hosts."""
        self._on_host = [worker for worker in world.workers if me in world.workers and hosts[worker] == hosts[me]]
        self.runs: dict[Key, HostReduce] = {}

    @property
    def _is_first(self) -> bool:
        return self.me == self._on_host[0]

    def snapshot(self) -> dict[str, Any]:
        return {**self._inner.snapshot(), "host_sums": super().snapshot()}

    def waiting_for(self) -> str:
        for (kind, clock, bucket), run in self.runs.items():
            if run._reduce is None:
                continue
            what = f"'{kind}' (step {clock}, bucket {bucket})"
            late = [worker for worker in self._on_host if worker not in run.weights]
            if not self._is_first:
                return f"{self.world.name(self._on_host[0])} to hand on the reduction of {what}"
            if late:
                return f"{', '.join(map(self.world.name, late))} in the sum of the host of {what}"
        return super().waiting_for()

    def on_members_changed(self, event: MembersChanged) -> Actions:
        raise IllegalAction(
            f"the members changed ({event.reason}) in a run in which hosts sum first, and a sum dies with its worker.\n"
            "  Let all workers reduce, as runs do that go on without lost workers."
        )

    def on_action(self, action: Action) -> Actions:
        if not isinstance(action, Reduce) or action.kind not in self._summed or action.op == MAX:
            return [action]
        key = action.kind, action.clock, action.buffer.bucket
        run = self.runs.setdefault(key, HostReduce())
        run._reduce = action
        if self._is_first:
            run.weights[self.me] = action.weight
            return self._speak_if_complete(run)
        body = action.buffer if action.weight else None
        return [Send(self._on_host[0], UP + action.kind, action.clock, action.buffer.bucket, body, action.weight)]

    def on_received(self, event: Received) -> Actions:
        if event.kind.startswith(UP):
            return self._take(event, (event.kind.removeprefix(UP), event.clock, event.bucket))
        if event.kind.startswith(DOWN):
            return self._end((event.kind.removeprefix(DOWN), event.clock, event.bucket), event.body, event.weight)
        return self._forward(event)

    def on_returned(self, event: Returned) -> Actions:
        return Peer.on_returned(self, event) if event.kind.startswith((UP, DOWN)) else self._forward(event)

    def _take(self, event: Received, key: Key) -> Actions:
        """A worker of this host gives its contribution, perhaps before the sum was begun here."""
        run = self.runs.setdefault(key, HostReduce())
        run.weights[event.source] = event.weight
        kept: Actions = []
        if event.body is not None:
            kept = [copy(Buffer(came(self._on_host.index(event.source)), event.bucket), event.body)]
        return [*kept, *self._speak_if_complete(run)]

    def _speak_if_complete(self, run: HostReduce) -> Actions:
        """When all workers of the host have given, reduce their mean with those of the other hosts."""
        reduce = run._reduce
        if reduce is None or len(run.weights) < len(self._on_host):
            return []
        bucket, total = reduce.buffer.bucket, sum(run.weights[worker] for worker in self._on_host)
        if len(self._on_host) == 1:
            return [Reduce(self._firsts, reduce.kind, reduce.clock, reduce.buffer, reduce.op, total)]
        actions: Actions = []
        for number, worker in enumerate(self._on_host):
            if run.weights[worker]:
                given = Buffer(came(number), bucket) if number else reduce.buffer
                share = run.weights[worker] / total
                actions.append(Combine(Buffer(SUM, bucket), 1.0 if actions else 0.0, given, share))
        return [*actions, Reduce(self._firsts, reduce.kind, reduce.clock, Buffer(SUM, bucket), reduce.op, total)]

    def on_reduced(self, event: Reduced) -> Actions:
        """The hosts have reduced: this is the first worker of one."""
        slot, bucket = event.buffer.slot, event.buffer.bucket
        for key, run in self.runs.items():
            reduce = run._reduce
            if key[1:] == (event.clock, bucket) and reduce is not None and slot in (SUM, reduce.buffer.slot):
                return self._end(key, event.buffer, event.weight)
        return self._forward(event)

    def _end(self, key: Key, result: Buffer | None, total: float) -> Actions:
        """The result is there: the first worker hands it on, and the inner peer gets what it asked for."""
        reduce = self.runs.pop(key)._reduce
        assert reduce is not None
        actions: Actions = []
        if total and result is not None and result != reduce.buffer:
            actions.append(copy(reduce.buffer, result))
        if self._is_first:
            kind, clock, bucket = key
            body = reduce.buffer if total else None
            actions += [Send(other, DOWN + kind, clock, bucket, body, total) for other in self._on_host[1:]]
        return [*actions, *self._forward(Reduced(reduce.clock, reduce.buffer, total))]
