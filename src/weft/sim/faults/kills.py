"""Workers are killed now and then in virtual time, as --chaos does on real ones, and each is replaced."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from weft.core.names import NodeId
from weft.core.script_state import ENDED
from weft.cost.recovery import RecoveryTimes
from weft.sim.faults.in_flight import FailableNode
from weft.sim.faults.injection import FaultInjection
from weft.sim.faults.plan import Faults
from weft.sim.kernel import to_ns
from weft.sim.simulation import Simulation

HEALTHY_MIN = 2
"""The last worker is spared."""
RETRY_S = 0.01
"""A kill that is due while only one worker is there is tried again so much later."""


class KillDraws(Protocol):
    """Says when workers are killed, and which."""

    def next_s(self, now_s: float) -> float | None:
        """When the next kill is due, asked at the start and at each kill, before its victim; None: there is none."""
        ...

    def victim(self, healthy: Sequence[NodeId]) -> NodeId | None:
        """Whom of the workers that train at this moment to kill; None: whom it wants is not among them."""
        ...


@dataclass
class SimulatedLoss:
    """A worker that was killed, and when what followed has happened, in virtual seconds."""

    worker: NodeId
    step: int
    lost_s: float
    replaced_s: float | None = None
    """When its newcomer began its first step; None: the run ended before."""


def faults_of(times: RecoveryTimes) -> Faults:
    """No schedule, but how long each part of a loss and a replacement takes."""
    return Faults(notice_s=times.notice_s, news_s=0.0, start_s=times.start_s, rest_s=times.rest_s)


class Kills:
    """Kills the workers of one simulation until a script has ended; `losses` has what became of each.

    A worker can be killed while it is a member that steps: not while its newcomer is being started or welcomed.
    """

    def __init__(self, simulation: Simulation, injection: FaultInjection, draws: KillDraws, notice_s: float) -> None:
        self._simulation = simulation
        self._injection = injection
        self._draws = draws
        self._notice_ns = to_ns(notice_s)
        self._open: dict[NodeId, SimulatedLoss] = {}
        """The losses of workers that have not been replaced yet."""
        self.losses: list[SimulatedLoss] = []
        self.num_missed = 0
        """Kills whose victim did not train at that moment."""
        injection.rest.on_welcomed = self._replaced
        self._plan()

    def _plan(self) -> None:
        kernel = self._simulation.kernel
        due_s = self._draws.next_s(kernel.now_s)
        if due_s is not None:
            kernel.at(to_ns(due_s), self._strike)

    def _strike(self) -> None:
        kernel, members = self._simulation.kernel, self._workers()
        if any(node.script.at is ENDED for node in members):
            return
        healthy = [node.id for node in members if not node.is_gone and node.id not in self._open]
        if len(healthy) < HEALTHY_MIN:
            kernel.at(kernel.now_ns + to_ns(RETRY_S), self._strike)
            return
        self._plan()
        victim = self._draws.victim(healthy)
        if victim is None:
            self.num_missed += 1
        else:
            self._kill(victim)

    def _workers(self) -> list[FailableNode]:
        members = self._injection.membership.arbiter.view.members
        return [self._injection.liveness.node(id) for id in members if id < self._simulation.world.num_workers]

    def _kill(self, worker: NodeId) -> None:
        """A worker's process dies; when that is noticed, another one is started in its place."""
        kernel, facts = self._simulation.kernel, self._simulation.facts
        loss = SimulatedLoss(worker, self._injection.liveness.node(worker).step, kernel.now_s)
        self._open[worker] = loss
        self.losses.append(loss)
        facts.finished_s[worker] = kernel.now_s
        self._injection.crash(worker)
        kernel.at(kernel.now_ns + self._notice_ns, self._injection.replace, (worker,))

    def _replaced(self, workers: Sequence[NodeId]) -> None:
        for worker in workers:
            self._open.pop(worker).replaced_s = self._simulation.kernel.now_s
