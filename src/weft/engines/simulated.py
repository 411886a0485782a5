"""Simulated workers: runs a script under a strategy on a cluster, in virtual time and one process."""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from weft.adapters.torch.ambient import TorchSwapper
from weft.config.cluster import Cluster, Placement
from weft.config.compression import Compression, check_pair, compressed, with_codec
from weft.config.compression import cheapest as cheapest_scheme
from weft.config.compression import codec as codec_of
from weft.config.registry import AUTO, lowered, spelled
from weft.config.registry import strategy as strategy_of
from weft.core.errors import ConfigError, NodeLost, WeftError
from weft.core.names import PARAMS, Bucket, Role, Roles
from weft.core.recorder import TraceHash
from weft.core.seat import Places, Replica, check_tuned
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.cost.choice import cheapest, prices_s
from weft.data.dealt import portions
from weft.data.static import global_batches, share_of
from weft.engines.conversation import DEFAULT_STRATEGY, check_layouts
from weft.engines.explanation import Explanation, coded, explained
from weft.engines.job import check_job
from weft.engines.memory import available_bytes, check_fits, resident_bytes
from weft.engines.outcome import Outcome
from weft.sim.compute import ComputeTime, PerSample, Trace
from weft.sim.facts import Facts
from weft.sim.network import HostLinks
from weft.sim.program import BackwardDone, GhostProgram, GhostTaker, Program, ReportDone, SaveAsked
from weft.sim.reports import ModelReports, NoReports, Reports
from weft.sim.script import Joined, Plan, ScriptProgram, ScriptSeat
from weft.sim.simulation import Simulation
from weft.sim.stage import PlainSwapper, Stage
from weft.store.ghost import GhostStore
from weft.store.numpy import NumpyStore
from weft.store.preparing import ready_codecs
from weft.store.store import Store

NATIVE = "done natively, at the price of the cheapest formula on the slowest link"


@dataclass(frozen=True)
class Job:
    """One simulation: a script with its arguments on a cluster."""

    script: Path
    arguments: tuple[str, ...]
    cluster: Cluster
    num_workers: int
    strategy: Strategy | str | None = None
    collective: str | None = None
    seed: int = 0
    steps_max: int | None = None
    compress: str | None = None

    def __post_init__(self) -> None:
        check_job(self.script, self.num_workers, self.seed, self.steps_max)
        if self.compress is not None:
            codec_of(self.compress)
        if self.strategy is not None or self.collective is not None:
            self.resolved(None).check(self.num_workers, self.cluster.num_hosts(self.num_workers))

    def asked(self, by_script: Strategy | str | None) -> Strategy:
        """The strategy as it is asked for: the job's own, else the script's, else all-reduce."""
        chosen = self.strategy or by_script or DEFAULT_STRATEGY
        return strategy_of(chosen) if isinstance(chosen, str) else chosen

    def resolved(
        self, by_script: Strategy | str | None, buckets: Sequence[Bucket] = (), compress: str | None = None
    ) -> Strategy:
        """The strategy to run on a model of these buckets, over the collective that is named or the cheapest."""
        asked, compress = self.asked(by_script), self.codec_for(compress)
        collective = self.collective_for(asked, buckets, compress)
        if compress is not None:
            codec = codec_of(compress)
            check_pair(asked, codec, self.name_of(by_script))
            return compressed(asked, Compression(codec, self.scheme_for(asked, buckets, compress)), collective)
        return asked if collective is None else lowered(asked, collective)

    def codec_for(self, by_script: str | None) -> str | None:
        """The codec that the job, or else the script, asks for; one worker has nobody to talk to."""
        return None if self.num_workers == 1 else self.compress or by_script

    def collective_for(self, strategy: Strategy, buckets: Sequence[Bucket], compress: str | None = None) -> str | None:
        """By whose messages reductions are spoken; None: they are done natively, which nobody does who codes."""
        if self.collective != AUTO and not (self.collective is None and compress is not None):
            return self.collective
        sizes = [bucket.num_bytes for bucket in buckets]
        return cheapest(prices_s(sizes, self.cluster.ground(self.num_workers))) if strategy.reduces else None

    def scheme_for(self, strategy: Strategy, buckets: Sequence[Bucket], compress: str) -> str | None:
        """How what is coded is reduced."""
        num_bytes, link = sum(bucket.num_bytes for bucket in buckets), self.cluster.ground(self.num_workers).slowest
        return cheapest_scheme(codec_of(compress), num_bytes, self.num_workers, link) if strategy.reduces else None

    def explained(
        self, by_script: Strategy | str | None, buckets: Sequence[Bucket], compress: str | None = None
    ) -> Explanation:
        """How a model of these buckets will be trained."""
        asked, ground, compress = self.asked(by_script), self.cluster.ground(self.num_workers), self.codec_for(compress)
        coding = None
        if compress is not None:
            num_bytes = sum(bucket.num_bytes for bucket in buckets)
            coding = coded(compress, self.scheme_for(asked, buckets, compress), num_bytes, ground)
        place = f"simulated on {len(ground.sizes)} hosts like those of cluster '{self.cluster.name}'"
        sizes = [bucket.num_bytes for bucket in buckets]
        collective = self.collective_for(asked, buckets, compress)
        return explained(asked, self.name_of(by_script), place, NATIVE, sizes, ground, collective, coding)

    def name_of(self, by_script: Strategy | str | None) -> str:
        """What the strategy is called."""
        chosen = self.strategy or by_script or DEFAULT_STRATEGY
        return chosen if isinstance(chosen, str) else spelled(chosen)

    def label(self, by_script: Strategy | str | None, compress: str | None = None) -> str:
        """How tables call it."""
        return with_codec(self.name_of(by_script), self.codec_for(compress))


@dataclass
class Watcher:
    """Whoever looks on: lines that worker 0 prints, and every finished step."""

    show: Callable[[str], None] = print
    on_step: Callable[[Facts, float], None] | None = None
    on_plan: Callable[[int], None] | None = None
    on_explain: Callable[[Explanation], None] = lambda explanation: None


class _Scripts:
    """All workers' scripts up to their joining, on one stage."""

    def __init__(self, job: Job, watcher: Watcher) -> None:
        self._job = job
        # torch reads it when it is imported: compiling for each simulated worker would take minutes
        os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
        folder = str(job.script.resolve().parent)
        argv = [str(job.script), *job.arguments]
        self.stage = Stage([PlainSwapper(argv, [folder, *sys.path]), TorchSwapper()], job.seed, watcher.show)
        shared: dict[object, Any] = {}
        self.seats = [
            ScriptSeat(rank, job.num_workers, job.seed, job.steps_max, shared) for rank in range(job.num_workers)
        ]
        self.programs = [ScriptProgram(str(job.script), seat, self.stage) for seat in self.seats]

    def resume(self, rank: int, when: str) -> Any:
        """Run one worker's script to its next request; `when` says how far it is, for errors."""
        return self._told(when, rank, self.programs[rank].resume)

    @staticmethod
    def _told(when: str, rank: int, run: Callable[[], Any]) -> Any:
        try:
            return run()
        except WeftError:
            raise
        except Exception as error:
            raise NodeLost(f"worker {rank} raised {type(error).__name__} {when}: {error}") from error

    def begin(self, rank: int) -> None:
        """Run one worker's script on, until it has said all that its world depends on: what it tunes."""
        self._told("at step 0", rank, self.programs[rank].begin)

    def join(self, rank: int) -> Joined:
        """Run one worker's script until it joins."""
        request = self.resume(rank, "before it joined")
        if not isinstance(request, Joined):
            raise ConfigError(
                f"script '{self._job.script}' ended without calling weft.join.\n"
                "  Add worker = weft.join(model, optimizer) before its training loop."
            )
        return request

    def close(self) -> None:
        """End what has not ended and leave the process as it was."""
        for program in self.programs:
            program.abandon()
        self.stage.leave()


def simulate(job: Job, watcher: Watcher | None = None, recorder: TraceHash | None = None) -> Outcome:
    """Run the script once for each worker, gradients real and time virtual."""
    watcher = watcher or Watcher()
    recorder = TraceHash() if recorder is None else recorder
    scripts = _Scripts(job, watcher)
    try:
        joined = _join_all(job, scripts)
        watcher.on_explain(job.explained(joined[0].strategy, joined[0].replica.buckets, joined[0].compress))
        strategy = job.resolved(joined[0].strategy, joined[0].replica.buckets, joined[0].compress)
        for seat in scripts.seats:
            seat.runs_closures = strategy.allows_closures
            seat.deals_portions = strategy.deals_portions
        replicas: list[Replica] = [each.replica for each in joined]
        for rank, replica in enumerate(replicas):
            scripts.begin(rank)
            check_tuned(rank, replicas[0].tuned(), replica.tuned())
            if strategy.tunes:
                replica.share_tuned()
        world, placement = _world(job, strategy, replicas[0].buckets)
        codecs = ready_codecs(strategy, replicas)
        replicas += [replicas[0].twin() for _ in world.servers]
        stores = [
            NumpyStore(
                replica,
                [slot.name for slot in strategy.slots(world.role(node), world)],
                strategy.rules(world),
                is_server=world.role(node) is Role.SERVER,
                codecs=codecs,
                seed=(job.seed, node),
            )
            for node, replica in enumerate(replicas)
        ]
        reports = ModelReports(scripts.programs, replicas, strategy, world, stores[0].lend)
        watcher = _with_total(job, strategy, scripts.seats[0], watcher)
        facts = _run(job, strategy, world, placement, stores, scripts.programs, reports, recorder, watcher)
        if not any(facts.steps):
            raise ConfigError(
                f"script '{job.script}' joined but never stepped.\n"
                "  Call optimizer.step() (or worker.step() for arrays) in its training loop."
            )
        label = job.label(joined[0].strategy, joined[0].compress)
        arrays = [array for model in reports.result.models().values() for array in model]
        consensus = reports.result.consensus()
        return Outcome(label, job.num_workers, job.seed, recorder.hexdigest(), facts, consensus, arrays, replicas)
    finally:
        scripts.close()


def simulate_dry(job: Job, watcher: Watcher | None = None, recorder: TraceHash | None = None) -> Outcome:
    """Run the script once for its layout and number of steps, then peers without tensors."""
    watcher = watcher or Watcher()
    recorder = TraceHash() if recorder is None else recorder
    scripts = _Scripts(job, watcher)
    try:
        joined = scripts.join(0)
        joined.replica.settle()
        request = scripts.resume(0, "at step 0")
        while isinstance(request, ReportDone | SaveAsked):
            request = scripts.resume(0, "at step 0")
        plan = scripts.seats[0].planned
    finally:
        scripts.close()
    if not isinstance(request, BackwardDone):
        raise ConfigError(
            f"script '{job.script}' joined but computed no gradient.\n  Call backward() in its training loop."
        )
    watcher.on_explain(job.explained(joined.strategy, joined.replica.buckets, joined.compress))
    strategy = job.resolved(joined.strategy, joined.replica.buckets, joined.compress)
    num_steps, programs = _ghosts(job, strategy, plan, request.samples)
    if watcher.on_plan is not None:
        watcher.on_plan(num_steps)
    if strategy.tunes:
        joined.replica.share_tuned()
    world, placement = _world(job, strategy, joined.replica.buckets)
    stores: list[Store] = [
        GhostStore(world.buckets, [slot.name for slot in strategy.slots(world.role(node), world)], strategy.codecs())
        for node in range(world.num_nodes)
    ]
    facts = _run(job, strategy, world, placement, stores, programs, NoReports(), recorder, watcher)
    return Outcome(job.label(joined.strategy, joined.compress), job.num_workers, job.seed, recorder.hexdigest(), facts)


def _with_total(job: Job, strategy: Strategy, seat: ScriptSeat, watcher: Watcher) -> Watcher:
    """Let whoever looks on know the number of steps as soon as worker 0 has said how long it trains."""
    on_plan, on_step = watcher.on_plan, watcher.on_step
    if on_plan is None or on_step is None:
        return watcher

    def first_step(facts: Facts, now_s: float) -> None:
        if facts.num_steps == 1 and seat.planned is not None and (seat.planned.num_epochs or job.steps_max):
            on_plan(_ghosts(job, strategy, seat.planned, 0)[0])
        on_step(facts, now_s)

    return Watcher(watcher.show, first_step, on_plan, watcher.on_explain)


def _ghosts(job: Job, strategy: Strategy, plan: Plan | None, first: float) -> tuple[int, list[Program]]:
    """The steps of all workers together, and scripts without maths that make them."""
    workers = range(job.num_workers)
    if strategy.deals_portions and plan is not None and plan.num_epochs is not None:
        spans = portions(plan.num_samples, job.num_workers, plan.batch_size, plan.drop_last)
        samples = [stop - start for start, stop in spans]
        num_steps = job.steps_max * job.num_workers if job.steps_max else plan.num_epochs * len(spans)
        return num_steps, [GhostTaker(samples, plan.num_epochs, job.steps_max) for _ in workers]
    step_samples, each = _steps(job, plan, first)
    return each * job.num_workers, [GhostProgram([s[rank] for s in step_samples], each) for rank in workers]


def _steps(job: Job, plan: Plan | None, first: float) -> tuple[list[list[int]], int]:
    """The samples of each worker in each step of an epoch, and the steps of the whole run."""
    if plan is None or plan.num_epochs is None:
        if job.steps_max is None:
            raise ConfigError(
                "a dry run cannot know how long the script would train.\n"
                "  Add --steps 100, or use worker.epochs(...) and worker.share(...) in the script."
            )
        return [[int(first)] * job.num_workers], job.steps_max
    spans = global_batches(plan.num_samples, job.num_workers, plan.batch_size, plan.drop_last)
    parts = [[share_of(span, rank, job.num_workers) for rank in range(job.num_workers)] for span in spans]
    step_samples = [[stop - start for start, stop in step] for step in parts]
    return step_samples, job.steps_max or plan.num_epochs * len(spans)


def _join_all(job: Job, scripts: _Scripts) -> list[Joined]:
    """Run all scripts to their joining; all begin with worker 0's parameters."""
    joined: list[Joined] = []
    before = resident_bytes()
    for rank in range(job.num_workers):
        joined.append(scripts.join(rank))
        first, mine = joined[0].replica, joined[rank].replica
        if rank == 0:
            before = resident_bytes()
        else:
            _check_layout(rank, joined)
            for value, others in zip(mine.values(), first.values(), strict=True):
                value[...] = others
        if rank and job.asked(joined[0].strategy).shares_replica:
            mine.settle(place=partial(_beside, first))
        else:
            mine.settle()
        if rank <= 1:
            _check_memory(job, joined[0], resident_bytes() - before)
    return joined


def _beside(first: Replica, buckets: Sequence[Bucket]) -> Places:
    """The memory of a replica that is worker 0's, but for gradients and what is not trained."""
    own = [np.zeros(kind.num_elements, f"f{kind.itemsize}") for kind in buckets]
    params = [first.array(PARAMS, b) if kind.trainable else own[b] for b, kind in enumerate(buckets)]
    gradient = [np.zeros_like(params[b]) for b, kind in enumerate(buckets) if kind.trainable]
    return Places(params, gradient, gradient)


def _check_memory(job: Job, joined: Joined, grown_bytes: int) -> None:
    """Refuse a run that will not fit: parameters, gradients, slots and two copies for the optimizer, at every node."""
    strategy = job.resolved(joined.strategy, joined.replica.buckets, joined.compress)
    world, _ = _world(job, strategy, joined.replica.buckets)
    copies = len(strategy.slots(Role.WORKER, world)) + 4
    model_bytes = copies * sum(bucket.num_bytes for bucket in world.buckets)
    check_fits(
        job.num_workers, model_bytes * world.num_nodes // job.num_workers + max(grown_bytes, 0), available_bytes()
    )


def _check_layout(rank: int, joined: list[Joined]) -> None:
    first, mine = joined[0].replica, joined[rank].replica
    if {id(thing) for other in joined[:rank] for thing in other.replica.brought} & {
        id(thing) for thing in mine.brought
    }:
        raise ConfigError(
            f"worker {rank} joined with the very objects of another worker.\n"
            "  Build the model in the script itself: modules that it imports are shared by all simulated workers."
        )
    check_layouts(rank, list(first.layout()), list(mine.layout()))


def _world(job: Job, strategy: Strategy, buckets: Sequence[Bucket]) -> tuple[World, Placement]:
    """Servers sit on the hosts of the first workers."""
    strategy.check(job.num_workers, job.cluster.num_hosts(job.num_workers))
    placement = job.cluster.place(job.num_workers)
    roles: Roles = strategy.roles(job.num_workers)
    hosts = placement.hosts + tuple(placement.hosts[i % job.num_workers] for i in range(roles.num_servers))
    return World(roles, tuple(buckets), strategy.graph(job.num_workers), hosts), placement


def _run(
    job: Job,
    strategy: Strategy,
    world: World,
    placement: Placement,
    stores: Sequence[Store],
    programs: Sequence[Program],
    reports: Reports,
    recorder: TraceHash,
    watcher: Watcher,
) -> Facts:
    num_hosts = max(world.hosts) + 1
    network = HostLinks(world.hosts, [job.cluster.between] * num_hosts, job.cluster.within)
    compute: ComputeTime = PerSample(placement.seconds_per_sample, job.cluster.variation)
    if job.cluster.step_s:
        compute = Trace(job.cluster.step_s)
    simulation = Simulation(
        strategy, world, stores, programs, network, compute, reports, job.seed, recorder, watcher.on_step
    )
    return simulation.run()
