"""Faults happen by schedule: what each kind does to the liveness, the reach and the membership of nodes."""

from collections.abc import Callable, Sequence

from weft.core.names import NodeId
from weft.sim.arbiter import Arbiter
from weft.sim.delivery import Delivery
from weft.sim.faults.delivery import ViewDelivery
from weft.sim.faults.failable import FailableLiveness
from weft.sim.faults.in_flight import FailableNode
from weft.sim.faults.membership import Membership
from weft.sim.faults.plan import Crash, Fault, Faults, Join, Loss, Partition, Pause, Rejoin
from weft.sim.faults.reach import Reach
from weft.sim.faults.rest import Rest
from weft.sim.kernel import Kernel, to_ns
from weft.sim.liveness import Liveness
from weft.sim.program import Newcomer
from weft.sim.simulation import Simulation
from weft.store.store import Store


def no_newcomers(worker: NodeId) -> tuple[Store, Newcomer]:
    """For runs to which nobody comes."""
    raise AssertionError(f"worker {worker} comes in, but this run has no scripts for newcomers")


class FaultInjection:
    """Puts a simulation together in which nodes die, stand still, lie about the time and lose each other's messages.

    One for each simulation, which is given `make_liveness` and `make_delivery`. `new_store` makes the empty tensors
    of a server that is started anew, `new_worker` the tensors and the script of a newcomer. With `takes_newcomers`
    some may come (`replace`) that are in no schedule.
    """

    liveness: FailableLiveness
    delivery: ViewDelivery
    membership: Membership
    rest: Rest
    _kernel: Kernel
    _simulation: Simulation
    _reach: Reach

    def __init__(
        self,
        faults: Faults,
        new_store: Callable[[NodeId], Store],
        new_worker: Callable[[NodeId], tuple[Store, Newcomer]] = no_newcomers,
        *,
        takes_newcomers: bool = False,
    ) -> None:
        self._faults = faults
        self._takes_newcomers = takes_newcomers or faults.has_joins
        self._new_store = new_store
        self._new_worker = new_worker

    def make_liveness(self, simulation: Simulation) -> Liveness[FailableNode]:
        self.liveness = FailableLiveness(simulation.kernel, simulation.world, self._faults)
        return self.liveness

    def make_delivery(self, simulation: Simulation) -> Delivery[FailableNode]:
        """Called after `make_liveness`, whose nodes it delivers to; from now on faults come due."""
        world, liveness, faults = simulation.world, self.liveness, self._faults
        reach = self._reach = Reach()
        arbiter = Arbiter(range(world.num_nodes), world.view)
        self.delivery = ViewDelivery(simulation, arbiter, liveness, reach, faults)
        self.membership = Membership(
            simulation, arbiter, liveness, reach, self.delivery, faults, self._new_store, self._new_worker
        )
        self._kernel, self._simulation = simulation.kernel, simulation
        if self._takes_newcomers:
            self.rest = Rest(simulation, liveness, reach, self.delivery, self.membership, faults.rest_s)
        for fault in faults.schedule:
            self._plan(fault)
        return self.delivery

    def _plan(self, fault: Fault) -> None:
        """Enter a fault into the kernel; what else faults do, those ask who need to know (`Faults.active`)."""
        at, fence_s = self._kernel.at, self._faults.fence_s
        if isinstance(fault, Crash):
            at(to_ns(fault.at_s), self.crash, (fault.worker,))
        elif isinstance(fault, Pause):
            at(to_ns(fault.at_s), self.liveness.pause, (fault.worker,))
            at(to_ns(fault.at_s + fault.duration_s), self.liveness.wake, (fault.worker,))
            if fault.duration_s > fence_s:
                at(to_ns(fault.at_s + fence_s), self._fence, ((fault.worker,), fault.duration_s))
        elif isinstance(fault, Loss):
            at(to_ns(fault.at_s), self._reach.sever, (fault.source, fault.target))
            at(to_ns(fault.at_s + fault.duration_s), self._mend, (fault.source, fault.target))
        elif isinstance(fault, Partition):
            at(to_ns(fault.at_s), self._reach.cut, (fault.workers,))
            at(to_ns(fault.at_s + fault.duration_s), self._heal, (fault.workers,))
            if fault.duration_s > fence_s:
                at(to_ns(fault.at_s + fence_s), self._fence, (fault.workers, fault.duration_s))
        elif isinstance(fault, Join):
            at(0, self._be_absent, (fault.worker,))
            at(to_ns(fault.at_s), self._come, (fault.worker,))
        elif isinstance(fault, Rejoin):
            at(to_ns(fault.at_s), self.replace, (fault.worker,))

    def replace(self, worker: NodeId) -> None:
        """Start a new process for a worker; when its script has begun, it asks to come in."""
        if self._faults.start_s:
            self._simulation.iterations.prepare(worker, self._faults.start_s, self._come, (worker,))
        else:
            self._come(worker)

    def crash(self, worker: NodeId) -> None:
        """The process of a worker dies now; the others hear of it `notice_s` later."""
        lost = self.liveness.on_process(worker)
        self.liveness.end(lost)
        self._simulation.iterations.drop(worker)
        self.membership.exclude(worker)
        notice_ns = to_ns(self._faults.notice_s)
        self._kernel.at(self._kernel.now_ns + notice_ns, self.membership.replace, (lost, "lost"))

    def _be_absent(self, worker: NodeId) -> None:
        """A worker is not there from the start, as all know at once."""
        lost = self.liveness.on_process(worker)
        self.liveness.end(lost)
        self.membership.exclude(worker)
        self.membership.replace(lost, "without")

    def _come(self, worker: NodeId) -> None:
        """A process comes as this worker; if that is not out yet, it waits. One that was never lost needs none."""
        if worker in self.membership.arbiter.view.members:
            if self.liveness.node(worker).is_gone:
                later_ns = self._kernel.now_ns + to_ns(self._faults.notice_s)
                self._kernel.at(later_ns, self._come, (worker,))
            return
        self.rest.admit(worker)

    def _fence(self, workers: Sequence[NodeId], silent_s: float) -> None:
        """Processes that were silent for too long are out; they may run on for a while, in their old view."""
        lost = [node for worker in workers for node in self.liveness.on_process(worker)]
        for worker in workers:
            self.membership.exclude(worker)
        self.membership.replace(lost, "fenced")
        told_s = silent_s - self._faults.fence_s + self._faults.notice_s
        self._kernel.at(self._kernel.now_ns + to_ns(told_s), self.liveness.end, (lost,))

    def _mend(self, source: NodeId, target: NodeId) -> None:
        """That a channel broke is noticed: all that is under way on it is returned, and it works again."""
        self._reach.mend(source, target)
        node = self.liveness.node(source)
        if self.liveness.is_able(node, self._mend, source, target):
            self.delivery.give_back(node, target)

    def _heal(self, workers: Sequence[NodeId]) -> None:
        """The partition is over: what was held up goes on, in order."""
        self._reach.heal(workers)
        self.delivery.knock_again()
        self._reach.release()
