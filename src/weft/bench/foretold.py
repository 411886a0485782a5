"""Foretells the goodput of `weft bench recovery`: the same kills in virtual time, with the measured time of a step."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from weft.bench.disturbed_run import PlannedKill
from weft.config.registry import strategy as strategy_of
from weft.core.names import Bucket, NodeId
from weft.core.world import World
from weft.cost.recovery import RecoveryTimes
from weft.runtime.connections import LINKS, SHM
from weft.sim.compute import PerSample
from weft.sim.facts import Facts
from weft.sim.faults.injection import FaultInjection
from weft.sim.faults.kills import Kills, faults_of
from weft.sim.kernel import to_ns
from weft.sim.network import HostLinks
from weft.sim.program import GhostProgram
from weft.sim.reports import NoReports
from weft.sim.simulation import Simulation
from weft.store.building import ghost_store, ghost_stores

ENDLESS = 1 << 40
"""Steps of a script that trains until the time is over."""
VARIATION = 0.05
"""Lognormal, of step times: without it all workers would be in lockstep, whatever the strategy."""


@dataclass(frozen=True)
class ForetoldCourse:
    """What the simulator is told of a contender: nothing of how it fares when workers are killed."""

    strategy: str
    num_workers: int
    num_cores: int
    batch_size: int
    step_s: float
    """How long a step of a worker takes while nobody is killed: from one batch to its next."""
    seconds: float
    seed: int = 0
    times: RecoveryTimes = RecoveryTimes()  # noqa: RUF009

    @property
    def core_s(self) -> float:
        """Seconds of a core that a step takes: all that it does, messages too, while workers share the cores."""
        return self.step_s * min(1.0, self.num_cores / self.num_workers)


class PlannedDraws:
    """The kills of a plan, one after another, as `DisturbedRun` does them."""

    def __init__(self, plan: Sequence[PlannedKill]) -> None:
        self._coming = iter(plan)
        self._due: PlannedKill | None = None
        self._struck: PlannedKill | None = None

    def next_s(self, now_s: float) -> float | None:
        self._struck, self._due = self._due, next(self._coming, None)
        return None if self._due is None else self._due.after_s

    def victim(self, healthy: Sequence[NodeId]) -> NodeId | None:
        assert self._struck is not None
        return self._struck.rank if self._struck.rank in healthy else None


def foretold_goodput(course: ForetoldCourse, plan: Sequence[PlannedKill]) -> float:
    """Committed samples with these kills over those without, in the same virtual time."""
    return committed(course, plan).samples / committed(course, ()).samples


def committed(course: ForetoldCourse, plan: Sequence[PlannedKill]) -> Facts:
    """The facts of one simulated run, ended when its time is over."""
    strategy = strategy_of(course.strategy)
    roles = strategy.roles(course.num_workers)
    hosts = (0,) * sum(roles)
    world = World(roles, (Bucket(1),), strategy.graph(course.num_workers), hosts)  # its bytes are in the step's time
    script = GhostProgram([course.batch_size], ENDLESS)
    store = partial(ghost_store, strategy, world)
    injection = FaultInjection(
        faults_of(course.times), store, lambda worker: (store(worker), script.again()), takes_newcomers=True
    )
    simulation = Simulation(
        strategy,
        world,
        ghost_stores(strategy, world),
        [script.again() for _ in world.workers],
        HostLinks(hosts, [LINKS[SHM]], LINKS[SHM]),
        PerSample([0.0] * course.num_workers, VARIATION, [course.core_s] * course.num_workers),
        NoReports(),
        course.seed,
        num_cores=course.num_cores,
        liveness=injection.make_liveness,
        delivery=injection.make_delivery,
    )
    Kills(simulation, injection, PlannedDraws(plan), course.times.notice_s)
    simulation.kernel.at(to_ns(course.seconds), simulation.kernel.stop, ("its time was up",))
    return simulation.run()
