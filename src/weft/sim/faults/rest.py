"""The world comes to rest so that newcomers can come in (decision 0040), and goes on when they have been welcomed."""

from collections.abc import Callable, Sequence
from enum import Enum

from weft.core.actions import Compute
from weft.core.names import NodeId
from weft.core.script_state import ENDED, IN_SHARE, IN_STEP
from weft.sim.faults.delivery import ViewDelivery
from weft.sim.faults.failable import FailableLiveness
from weft.sim.faults.in_flight import FailableNode
from weft.sim.faults.membership import Membership
from weft.sim.faults.reach import Reach
from weft.sim.kernel import to_ns
from weft.sim.simulation import Simulation

LOOK_NS = to_ns(0.0005)
"""How often it is looked whether the world is at rest."""


class RestPhase(Enum):
    """Where a rest is: see `Rest`."""

    NONE = "the world goes on"
    STOPPING = "scripts stop where they begin a step, and messages come in"
    WELCOMING = "newcomers are members, and take over what they need"


class Rest:
    """Lets newcomers in, one rest for all that want to come.

    | phase     | scripts                                            | ends when                                     |
    |-----------|----------------------------------------------------|-----------------------------------------------|
    | NONE      | run                                                | somebody wants to come                        |
    | STOPPING  | stop before the same step, if the strategy keeps   | all have stopped, nothing is under way:       |
    |           | step, and else before their next one; make one     | the newcomers' view is decided, and told      |
    |           | more if others wait for them                       |                                               |
    | WELCOMING | stand still; a newcomer's stops before its first   | newcomers have stopped, nothing is under way; |
    |           | step                                               | or members change: newcomers leave again      |

    Nobody comes in once a script has ended: there is not enough left to do.
    """

    def __init__(
        self,
        simulation: Simulation,
        liveness: FailableLiveness,
        reach: Reach,
        delivery: ViewDelivery,
        membership: Membership,
        rest_s: float = 0.0,
    ) -> None:
        self._simulation = simulation
        self._liveness = liveness
        self._reach = reach
        self._delivery = delivery
        self._membership = membership
        self._num_workers = simulation.world.num_workers
        strategy = simulation.strategy
        self._is_in_step = strategy.keeps_step and not strategy.deals_portions
        """All stop before the same step; where portions are dealt, steps are each worker's own."""
        self.phase = RestPhase.NONE
        self._coming: list[NodeId] = []
        """The workers that want to come, or have come and are not welcomed yet."""
        self._boundary = 0
        """The step before which all stop, where they are in step."""
        self._rest_ns = to_ns(rest_s)
        self._since_ns: int | None = None
        """Since when the world has been at rest, before newcomers come in."""
        self.on_welcomed: Callable[[Sequence[NodeId]], None] = lambda workers: None
        """Hears of newcomers that make their first step now."""
        self._stopped: dict[NodeId, tuple[FailableNode, Compute]] = {}
        """Scripts that wait before a step."""
        simulation.holds = self._hold
        membership.on_leaving = self._interrupt

    def admit(self, worker: NodeId) -> None:
        """A process wants to come in as this worker, which is not a member."""
        if self.phase is not RestPhase.NONE:  # the next rest is its own
            self._simulation.kernel.at(self._simulation.kernel.now_ns + LOOK_NS, self.admit, (worker,))
            return
        self._coming.append(worker)
        self._stop()

    def _stop(self) -> None:
        """Find the step before which all stop: the next one of whoever is furthest ahead."""
        self.phase = RestPhase.STOPPING
        period = self._simulation.strategy.rest_period
        furthest = max((node.step for node in self._workers()), default=0)
        self._boundary = (furthest // period + 1) * period
        self._look()

    def _workers(self) -> list[FailableNode]:
        members = self._membership.arbiter.view.members
        return [self._liveness.node(id) for id in members if id < self._num_workers]

    def _hold(self, node: FailableNode, action: Compute) -> bool:
        """Whether a script waits before a step."""
        if self.phase is RestPhase.NONE or not self._membership.is_member(node):
            return False
        if self.phase is RestPhase.STOPPING and self._is_in_step and action.step < self._boundary:
            return False
        if node.id in self._coming and self.phase is RestPhase.WELCOMING:
            assert node.program is not None
            node.step = action.step
            node.program.begin_at(action.step)  # type: ignore[attr-defined]
        self._stopped[node.id] = node, action
        return True

    def _look(self) -> None:
        """Go on if the world is at rest; look again soon if it is not."""
        if self.phase is RestPhase.NONE:
            return
        workers = self._workers()
        if not workers or any(node.script.at is ENDED for node in workers):
            self._coming.clear()
            self._go_on()
        elif not self._is_at_rest():
            self._since_ns = None
            if self.phase is RestPhase.STOPPING and not self._is_in_step and self._stands_still():
                self._release()
            self._simulation.kernel.at(self._simulation.kernel.now_ns + LOOK_NS, self._look)
        elif self.phase is RestPhase.STOPPING:
            self._take_in()
        else:
            welcomed, self._coming = self._coming, []
            self._go_on()
            self.on_welcomed(welcomed)

    def _take_in(self) -> None:
        """Let newcomers in, when the world has been at rest for `rest_s`."""
        now_ns = self._simulation.kernel.now_ns
        self._since_ns = now_ns if self._since_ns is None else self._since_ns
        if now_ns < self._since_ns + self._rest_ns:
            self._simulation.kernel.at(self._since_ns + self._rest_ns, self._look)
            return
        self._since_ns = None
        self.phase = RestPhase.WELCOMING
        self._membership.take_in(self._coming)
        self._look()

    def _is_at_rest(self) -> bool:
        return all(node.id in self._stopped for node in self._workers()) and self._is_quiet()

    def _stands_still(self) -> bool:
        """Who has not stopped waits for steps of those who have: for a quorum, a portion or the end of a pass."""
        others = [node for node in self._workers() if node.id not in self._stopped]
        return (
            bool(self._stopped) and all(node.script.at in (IN_STEP, IN_SHARE) for node in others) and self._is_quiet()
        )

    def _is_quiet(self) -> bool:
        """Nothing is under way, and all members are there."""
        nodes = [self._liveness.node(id) for id in self._membership.arbiter.view.members]
        return (
            not any(node.outbox or node.early or node.is_paused or node.is_gone for node in nodes)
            and all(node.view == self._membership.arbiter.view.number for node in nodes)
            and not self._reach.is_cut(node.process for node in nodes)
            and self._delivery.is_idle
        )

    def _go_on(self) -> None:
        self.phase = RestPhase.NONE
        self._release()

    def _release(self) -> None:
        """Let all scripts that stopped begin their steps."""
        stopped, self._stopped = self._stopped, {}
        for _, (node, action) in sorted(stopped.items()):
            self._simulation.kernel.at(self._simulation.kernel.now_ns, self._begin_if_able, (node, action))

    def _begin_if_able(self, node: FailableNode, action: Compute) -> None:
        if self._liveness.is_able(node, self._begin_if_able, node, action):
            self._simulation.begin(node, action)

    def _interrupt(self, leaving: Sequence[NodeId]) -> list[NodeId]:
        """Members leave: who came and was not welcomed yet leaves with them, and comes again in the next rest."""
        self._coming = [worker for worker in self._coming if worker not in leaving]
        self._since_ns = None
        again = self._coming if self.phase is RestPhase.WELCOMING else []
        for worker in (*leaving, *again):
            self._stopped.pop(worker, None)
        if self.phase is RestPhase.WELCOMING:
            self.phase = RestPhase.STOPPING
        return list(again)
