"""A run in virtual time: builds the world of a job on its cluster, and the simulation over it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weft.config.cluster import ClusterPlacement
from weft.core.names import Bucket, Roles
from weft.core.recorder import TraceHash
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.cost.coding import CodingSpeed
from weft.engines.explanation import Explanation
from weft.engines.simulated.chaos import DisturbedWorld
from weft.engines.simulated.job import SimulatedJob
from weft.observe.records.left_out import Lines
from weft.sim.compute import ComputeTime, PerSample, Trace
from weft.sim.facts import Facts
from weft.sim.network import HostLinks
from weft.sim.program import Program
from weft.sim.reports import Reports
from weft.sim.script import ScriptProgram
from weft.sim.shares import VirtualShares
from weft.sim.simulation import Simulation
from weft.sim.tracing import TracedSimulation
from weft.store.store import Store


@dataclass
class SimulationObserver:
    """Callbacks of one observer of a simulation: `show` gets lines that worker 0 prints, `on_step` every step."""

    show: Callable[[str], None] = print
    on_step: Callable[[Facts, float], None] | None = None
    on_plan: Callable[[int], None] | None = None
    on_explain: Callable[[Explanation], None] = lambda explanation: None
    on_tell: Callable[[str], None] = lambda text: None


def world_of(job: SimulatedJob, strategy: Strategy, buckets: Sequence[Bucket]) -> tuple[World, ClusterPlacement]:
    """The world and the workers' placement; servers are on the hosts of the first workers."""
    strategy.check(job.num_workers, job.cluster.num_hosts(job.num_workers))
    placement = job.cluster.place(job.num_workers)
    roles: Roles = strategy.roles(job.num_workers)
    hosts = placement.hosts + tuple(placement.hosts[i % job.num_workers] for i in range(roles.num_servers))
    return World(roles, tuple(buckets), strategy.graph(job.num_workers), hosts), placement


def run_world(
    job: SimulatedJob,
    strategy: Strategy,
    world: World,
    placement: ClusterPlacement,
    stores: Sequence[Store],
    programs: Sequence[Program],
    reports: Reports,
    shares: VirtualShares,
    recorder: TraceHash,
    observer: SimulationObserver,
    disturbed: DisturbedWorld | None = None,
) -> Facts:
    """Simulate programs over stores in a world, to the end; with `disturbed`, its workers are killed now and then."""
    num_hosts = max(world.hosts) + 1
    network = HostLinks(world.hosts, [job.cluster.between] * num_hosts, job.cluster.within)
    compute: ComputeTime = PerSample(placement.seconds_per_sample, job.cluster.variation, placement.seconds_per_step)
    if job.cluster.step_s:
        compute = Trace(job.cluster.step_s)
    kind = TracedSimulation if job.traces else Simulation
    simulation = kind(
        strategy,
        world,
        stores,
        programs,
        network,
        compute,
        reports,
        seed=job.seed,
        recorder=recorder,
        on_step=observer.on_step,
        coding=CodingSpeed(dict(job.cluster.codecs)) if job.cluster.codecs else None,
        num_cores=job.cluster.cores,
        stretch=placement.factors,
        **({} if disturbed is None else disturbed.parts),
    )
    if disturbed is not None:
        disturbed.begin(simulation)
    for program, node in zip(programs, simulation.nodes, strict=False):  # servers have none
        if isinstance(program, ScriptProgram):
            program.follow(node.script)
    shares.facts = simulation.facts
    simulation.on_left_out = Lines(observer.show).take
    return simulation.run()
