"""Who is a member in virtual time: views are decided, told to the members, and nodes are started anew in them."""

from collections.abc import Callable, Sequence
from random import Random

from weft.core.events import MembersChanged, Started
from weft.core.names import NodeId
from weft.core.script_state import ENDED
from weft.sim.arbiter import Arbiter, View
from weft.sim.faults.delivery import ViewDelivery
from weft.sim.faults.failable import FailableLiveness
from weft.sim.faults.in_flight import FailableNode
from weft.sim.faults.plan import Faults
from weft.sim.faults.reach import Reach
from weft.sim.kernel import to_ns
from weft.sim.program import Newcomer
from weft.sim.simulation import Simulation
from weft.store.store import Store


class Membership:
    """The engine's store, as the nodes know it: the one that changes views and starts nodes.

    Nodes come and go by `replace` (processes were lost, their servers move), `take_in` (newcomers) and when a script
    has ended. Members hear of a view one after another within `news_s`; of newcomers, who come when the world is at
    rest, all at once. `new_store` makes the empty tensors of a server that is started anew, `new_worker` the tensors
    and the script of a newcomer.
    """

    def __init__(
        self,
        simulation: Simulation,
        arbiter: Arbiter,
        liveness: FailableLiveness,
        reach: Reach,
        delivery: ViewDelivery,
        faults: Faults,
        new_store: Callable[[NodeId], Store],
        new_worker: Callable[[NodeId], tuple[Store, Newcomer]],
    ) -> None:
        self.arbiter = arbiter
        self._simulation = simulation
        self._world = simulation.world
        self._kernel = simulation.kernel
        self._liveness = liveness
        self._reach = reach
        self._delivery = delivery
        self._new_store = new_store
        self._new_worker = new_worker
        self.on_leaving: Callable[[Sequence[NodeId]], list[NodeId]] = lambda leaving: []
        """Hears which members are about to leave, and says which others leave with them."""
        self._linger_ns = to_ns(faults.linger_s)
        self._news_ns = to_ns(faults.news_s)
        self._rng = Random(f"news/{simulation.seed}")
        self._last_news_ns: dict[NodeId, int] = {}
        self._excluded: set[NodeId] = set()
        """Processes that are no members, or soon will not be, and host no servers."""
        self._ahead: list[FailableNode] = []
        """Workers that have ended, but stay until the others have made their last step."""
        self._start_if_able = liveness.when_able(self._start)
        delivery.on_settled = self._leave_if_done
        simulation.on_begun = self._reconsider_leaves
        simulation.on_ended = self._linger

    def exclude(self, process: NodeId) -> None:
        """A process is no member from the next view on, though its nodes may be until they are replaced."""
        self._excluded.add(process)

    def take_in(self, workers: Sequence[NodeId]) -> None:
        """Commit a view with these newcomers, at rest, and tell all members at once."""
        now_ns, names = self._kernel.now_ns, ", ".join(map(self._world.name, workers))
        view = self.arbiter.decide(now_ns, (), f"joined {names}", workers)
        for id in view.members:
            if id not in workers:
                self._last_news_ns[id] = max(now_ns, self._last_news_ns.get(id, 0))
                self._kernel.at(self._last_news_ns[id], self._tell, (self._liveness.node(id), view))
        for id in workers:
            self._excluded.discard(id)
            self._simulation.renew(id, view.number, *self._new_worker(id))
            self._kernel.at(now_ns, self._start_if_able, (self._liveness.node(id), view))

    def is_member(self, node: FailableNode) -> bool:
        """It is of the view in force, and not only an earlier incarnation of a node that is."""
        return self._liveness.is_present(node) and node.id in self.arbiter.view.members

    def replace(self, lost: Sequence[FailableNode], how: str) -> None:
        """Commit a view without these nodes, in which their servers are started anew."""
        lost = [node for node in lost if self.is_member(node)]
        if not lost:
            return
        names = [self._world.name(node.id) for node in lost]
        leaving = [node.id for node in lost if node.id < self._world.num_workers]
        moved = [node.id for node in lost if node.id >= self._world.num_workers]
        reason = f"{how} {', '.join(names)}"
        if moved:
            process = min(set(self._world.workers) - self._excluded)
            reason += f"; moved {', '.join(map(self._world.name, moved))} to the process of worker {process}"
        view = self._decide(leaving, reason)
        for id in moved:
            self._start_anew(id, process, view)
        self._reconsider_leaves()

    def _decide(self, leaving: Sequence[NodeId], reason: str) -> View:
        """Commit a view without these members; the others will hear of it."""
        now_ns, unwelcomed = self._kernel.now_ns, self.on_leaving(leaving)
        self._liveness.end(map(self._liveness.node, unwelcomed))
        self._excluded.update(unwelcomed)
        view = self.arbiter.decide(now_ns, (*leaving, *unwelcomed), reason)
        self._delivery.cancel_reductions()
        for id in view.members:
            delay_ns = round(self._rng.random() * self._news_ns)
            heard_ns = self._last_news_ns[id] = max(now_ns + delay_ns, self._last_news_ns.get(id, 0))
            self._kernel.at(heard_ns, self._tell, (self._liveness.node(id), view))
        return view

    def _tell(self, node: FailableNode, view: View) -> None:
        """A member hears of a view; a node that was started anew is a member, what it was before is not."""
        if not self._liveness.is_present(node) or self._reach.is_out_of_reach(node.process, self._tell, node, view):
            return
        if node.view < view.number and self._liveness.is_able(node, self._tell, node, view):
            self._delivery.enter_view(node, view)

    def _start_anew(self, id: NodeId, process: NodeId, view: View) -> None:
        """Put a new incarnation of a server in its place, on this process and in this view."""
        self._simulation.renew(id, view.number, self._new_store(id), None)
        node = self._liveness.node(id)
        self._liveness.move(node, process)
        self._kernel.at(self._kernel.now_ns, self._start_if_able, (node, view))

    def _start(self, node: FailableNode, view: View) -> None:
        self._simulation.deliver(node, Started(view.number))
        self._simulation.deliver(node, MembersChanged(view.number, view.members, view.reason))

    def _linger(self, node: FailableNode) -> None:
        """A script has ended: its node stays for a while, for others who may be about to end with it."""
        self._kernel.at(self._kernel.now_ns + self._linger_ns, self._take_leave, (node,))

    def _take_leave(self, node: FailableNode) -> None:
        """Others go on: it leaves, unless they may need what only it has, its last step being ahead of theirs."""
        others = [self._liveness.node(id) for id in self.arbiter.view.members if id < self._world.num_workers]
        if self._simulation.strategy.keeps_step and not all(other.has_begun(node.step) for other in others):
            self._ahead.append(node)
        elif any(other.script.at is not ENDED for other in others):
            node.is_leaving = True
            self._leave_if_done(node)

    def _reconsider_leaves(self) -> None:
        """Somebody has begun a step, or is out: those that are ahead may no longer be."""
        ahead, self._ahead = self._ahead, []
        for node in ahead:
            self._kernel.at(self._kernel.now_ns, self._take_leave, (node,))

    def _leave_if_done(self, node: FailableNode) -> None:
        """A worker that takes its leave goes when all that it sent has been received."""
        if not node.is_leaving or node.is_gone or node.outbox or not self.is_member(node):
            return
        if not self._reach.is_out_of_reach(node.process, self._leave_if_done, node):
            node.is_gone = True
            self._decide([node.id], f"finished {self._world.name(node.id)}")
