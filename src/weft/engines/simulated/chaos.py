"""Simulated runs whose workers are killed now and then (--chaos): without tensors, and each loss is replaced."""

from collections.abc import Sequence
from typing import Any

from weft.config.chaos import KILL, ChaosDraws, ChaosPlan
from weft.core.errors import ConfigError
from weft.core.names import NodeId
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.cost.recovery import RecoveryTimes
from weft.data.shares import STATIC
from weft.sim.faults.injection import FaultInjection
from weft.sim.faults.kills import Kills, SimulatedLoss, faults_of
from weft.sim.program import GhostProgram, Newcomer, Program
from weft.sim.simulation import Simulation
from weft.store.building import ghost_store
from weft.store.store import Store


def check_simulated_chaos(plan: ChaosPlan, sharing: str, *, traces: bool) -> None:
    """Refuse what simulated kills cannot do."""
    if plan.kind != KILL:
        raise ConfigError(
            f"--chaos '{plan.kind} ...' cannot be simulated: in virtual time workers are killed only.\n"
            f"  Use --chaos 'kill every {plan.every_s:g}s seed {plan.seed}', or weft run."
        )
    if sharing != STATIC:
        raise ConfigError(
            f"--chaos and --share {sharing} do not go together: a newcomer would not know what was taken.\n"
            "  Use --share static."
        )
    if traces:
        raise ConfigError("--chaos cannot be traced in virtual time.\n  Leave out --set write.trace, or use weft run.")


class DisturbedWorld:
    """The parts of a simulation whose workers are killed by a plan and replaced.

    `programs` are the workers' scripts: a newcomer has that of the worker that it replaces, from where the run is.
    """

    def __init__(
        self,
        plan: ChaosPlan,
        times: RecoveryTimes,
        strategy: Strategy,
        world: World,
        programs: Sequence[Program],
    ) -> None:
        if strategy.deals_portions or not strategy.welcomes:
            raise ConfigError(
                "--chaos kills workers and replaces them, but this strategy replaces nobody (sandblaster deals out "
                "portions).\n  Use another strategy: `weft strategies` lists them."
            )
        self._plan, self._times = plan, times
        self._strategy, self._world, self._programs = strategy, world, programs
        self._kills: Kills | None = None
        self._injection = FaultInjection(faults_of(times), self._store, self._newcomer, takes_newcomers=True)

    def _store(self, node: NodeId) -> Store:
        return ghost_store(self._strategy, self._world, node)

    def _newcomer(self, worker: NodeId) -> tuple[Store, Newcomer]:
        program = self._programs[worker]
        assert isinstance(program, GhostProgram), "shares are static, and strategies that deal portions are refused"
        return self._store(worker), program.again()

    @property
    def parts(self) -> dict[str, Any]:
        """What its simulation is made with."""
        return {"liveness": self._injection.make_liveness, "delivery": self._injection.make_delivery}

    def begin(self, simulation: Simulation) -> None:
        """Let kills come due in the simulation that was made with the parts."""
        self._kills = Kills(simulation, self._injection, ChaosDraws(self._plan), self._times.notice_s)

    @property
    def losses(self) -> list[SimulatedLoss]:
        """All losses so far, in order."""
        return [] if self._kills is None else self._kills.losses
