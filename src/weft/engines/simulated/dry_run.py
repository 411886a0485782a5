"""A run without tensors in virtual time; one whose workers are killed is run once more undisturbed, for its goodput."""

from collections.abc import Sequence
from typing import NamedTuple

from weft.core.names import Bucket
from weft.core.recorder import TraceHash
from weft.core.strategy import Strategy
from weft.engines.simulated.chaos import DisturbedWorld
from weft.engines.simulated.dry_programs import ghosts
from weft.engines.simulated.job import SimulatedJob
from weft.engines.simulated.world_run import SimulationObserver, run_world, world_of
from weft.sim.facts import Facts
from weft.sim.faults.kills import SimulatedLoss
from weft.sim.reports import NoReports
from weft.sim.script import ScriptPlan
from weft.sim.shares import VirtualShares
from weft.store.building import ghost_stores


class DryRun(NamedTuple):
    """What a dry run amounts to."""

    facts: Facts
    losses: list[SimulatedLoss]
    usual: float | None
    """Samples per second without kills; None: nobody is killed."""


def run_dry(
    job: SimulatedJob,
    strategy: Strategy,
    buckets: Sequence[Bucket],
    plan: ScriptPlan | None,
    first: float,
    recorder: TraceHash,
    observer: SimulationObserver,
) -> DryRun:
    """Simulate the script's plan; `first` is the number of samples in the first step."""
    world, placement = world_of(job, strategy, buckets)

    def run(recorder: TraceHash, observer: SimulationObserver, *, is_disturbed: bool) -> DryRun:
        stores, shares = ghost_stores(strategy, world), VirtualShares(job.num_workers, job.sharing)
        programs, disturbed = ghosts(job, strategy, plan, first, shares), None
        if is_disturbed:
            assert job.chaos is not None
            disturbed = DisturbedWorld(job.chaos, job.cluster.recovery, strategy, world, programs)
        facts = run_world(
            job, strategy, world, placement, stores, programs, NoReports(), shares, recorder, observer, disturbed
        )
        return DryRun(facts, [] if disturbed is None else disturbed.losses, None)

    made = run(recorder, observer, is_disturbed=job.chaos is not None)
    if job.chaos is None:
        return made
    return made._replace(usual=run(TraceHash(), SimulationObserver(), is_disturbed=False).facts.samples_per_s)
