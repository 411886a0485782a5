"""The simulator's native Reduce: done at once, at the cost of the formula."""

from collections.abc import Callable
from typing import Protocol

from weft.core.actions import OPS, Reduce
from weft.core.errors import IllegalAction
from weft.core.events import Reduced
from weft.core.names import Buffer, NodeId
from weft.cost.collectives import allreduce_bytes, allreduce_s, allreduce_transfer_s
from weft.sim.kernel import FIRST, Kernel, to_ns
from weft.sim.network import Network
from weft.store.store import Payload, Store

Group = tuple[NodeId, ...]
Key = tuple[Group, str, int, Buffer]


class CollectiveMember(Protocol):
    """A node, as far as collectives know it."""

    id: NodeId
    store: Store


class NativeReduce:
    """Collects contributions by value; when a group is complete, its members get the result together.

    Workers of a host reduce among themselves first, then hosts do; each level costs what a good all-reduce does.
    Reductions of one group share its links: their bytes go one after another, their latencies overlap.
    """

    def __init__(
        self,
        kernel: Kernel,
        network: Network,
        member: Callable[[NodeId], CollectiveMember],
        deliver: Callable[[NodeId, Reduced], None],
    ) -> None:
        self._kernel = kernel
        self._network = network
        self._member = member
        self._deliver = deliver
        self._open: dict[Key, dict[NodeId, tuple[Payload, float]]] = {}
        self._free_ns: dict[Group, int] = {}
        self._num_cancelled = 0
        self._num_due = 0
        """Complete reductions whose result has not been told."""

    def join(self, node: CollectiveMember, action: Reduce) -> int:
        """Add one member's contribution; returns the bytes that the whole group sends, once it is complete."""
        if node.id not in action.group or action.op not in OPS or action.weight < 0:
            raise IllegalAction(
                f"{action} must name its own node in the group, an op of {OPS} and a weight of at least 0."
            )
        key = (action.group, action.kind, action.clock, action.buffer)
        contributions = self._open.setdefault(key, {})
        if node.id in contributions:
            raise IllegalAction(f"{action} was emitted twice by node {node.id}.")
        contributions[node.id] = (node.store.capture(action.buffer), action.weight)
        if len(contributions) < len(action.group):
            return 0
        del self._open[key]
        self._num_due += 1
        num_bytes = node.store.num_bytes(action.buffer)
        start_ns = max(self._kernel.now_ns, self._free_ns.get(action.group, 0))
        levels = self._network.levels(action.group)
        transfer_s = sum(allreduce_transfer_s(size, num_bytes, link) for size, link in levels)
        self._free_ns[action.group] = start_ns + to_ns(transfer_s)
        self._kernel.at(
            start_ns + to_ns(sum(allreduce_s(size, num_bytes, link) for size, link in levels)),
            self._finish,
            (action, contributions, self._num_cancelled),
            FIRST,
        )
        return allreduce_bytes(len(action.group), num_bytes)

    @property
    def is_idle(self) -> bool:
        """No reduction is under way."""
        return not self._open and not self._num_due

    def cancel(self) -> None:
        """The members change: all reductions under way never happened (rule 12 of docs/architecture.md)."""
        self._open.clear()
        self._free_ns.clear()
        self._num_cancelled += 1

    def _finish(self, action: Reduce, contributions: dict[NodeId, tuple[Payload, float]], age: int) -> None:
        self._num_due -= 1
        if age != self._num_cancelled:
            return
        in_rank_order = [contributions[node] for node in sorted(action.group)]
        weight = sum(w for _, w in in_rank_order)
        if weight:
            store = self._member(action.group[0]).store
            value = store.reduce([p for p, _ in in_rank_order], [w for _, w in in_rank_order], action.op)
            for node in action.group:
                self._member(node).store.write(action.buffer, value)
        for node in action.group:
            self._deliver(node, Reduced(action.clock, action.buffer, weight))

    def missing(self) -> list[str]:
        """For a deadlock: which groups are incomplete, and who is missing."""
        return [
            f"the reduction of '{kind}' at clock {clock} lacks node {sorted(set(group) - set(present))}"
            for (group, kind, clock, _), present in self._open.items()
        ]
