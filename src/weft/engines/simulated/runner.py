"""Runs a script on simulated workers, under a strategy and on a cluster, in virtual time and one process."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from weft.adapters.torch.simulated_globals import TorchSwapper
from weft.config.extras import advice_on_import
from weft.core.errors import ConfigError, WeftError
from weft.core.leaving import lost_by
from weft.core.names import PARAMS, Bucket, Role
from weft.core.recorder import TraceHash
from weft.core.seat import Replica, ReplicaMemory, check_optimizers, check_tuned
from weft.core.shortening import shortened
from weft.core.strategy import Strategy
from weft.engines.real.layout_check import check_layouts
from weft.engines.real.memory_check import available_bytes, check_fits, resident_bytes
from weft.engines.real.short_runs import ShortRun
from weft.engines.simulated.dry_programs import num_samples, num_steps
from weft.engines.simulated.dry_run import run_dry
from weft.engines.simulated.job import SimulatedJob
from weft.engines.simulated.outcome import Outcome
from weft.engines.simulated.world_run import SimulationObserver, run_world, world_of
from weft.interpreter import script_path
from weft.observe.records.same_samples import SameSamples
from weft.observe.records.same_stream import SameStream
from weft.observe.records.status import CodingStatus, in_all
from weft.sim.facts import Facts
from weft.sim.program import BackwardDone, ReportDone, SaveAsked
from weft.sim.reports import ModelReports
from weft.sim.script import JoinCalled, ScriptProgram, ScriptSeat
from weft.sim.shares import VirtualShares
from weft.sim.stage import PlainSwapper, Stage
from weft.store.building import build_store
from weft.store.coded import told_by
from weft.store.numpy import NumpyStore
from weft.store.preparing import ready_codecs


class _Scripts:
    """The scripts of all workers, each in a greenlet; one stage swaps the process's global state between them."""

    def __init__(self, job: SimulatedJob, observer: SimulationObserver) -> None:
        self._job = job
        # torch reads this when it is imported. Without it, compiling for each simulated worker would take minutes.
        os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
        argv = [str(job.script), *job.arguments]
        self.stage = Stage([PlainSwapper(argv, script_path(job.script)), TorchSwapper()], job.seed, observer.show)
        shared: dict[object, Any] = {}
        self.shares = VirtualShares(job.num_workers, job.sharing)
        self.seats = [
            ScriptSeat(
                rank,
                job.num_workers,
                job.seed,
                steps_max=job.steps_max,
                shared=shared,
                shares=self.shares,
                pace=job.pace,
            )
            for rank in range(job.num_workers)
        ]
        same_samples, same_stream = SameSamples(job.num_workers), SameStream()
        for seat in self.seats:
            seat.saves, seat.is_probe = job.saves, job.is_probe
            seat.same_samples, seat.same_stream, seat.say = same_samples, same_stream, observer.on_tell
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
            text = shortened(str(error))
            lost = lost_by(f"worker {rank}", when, error, text + advice_on_import(type(error).__name__, text))
            raise lost from lost.__cause__

    def begin(self, rank: int) -> bool:
        """Resume one worker's script until it joins with a further model (returns True), or has declared the
        hyper-parameters that it tunes, on which the world depends."""
        return bool(self._told("at step 0", rank, self.programs[rank].begin))

    def join(self, rank: int) -> JoinCalled:
        """Run one worker's script until it joins."""
        try:
            request = self.resume(rank, "before it joined")
            if not isinstance(request, JoinCalled):
                raise ConfigError(
                    f"script '{self._job.script}' ended without calling weft.join.\n"
                    "  Add worker = weft.join(model, optimizer) before its training loop."
                )
        except WeftError as error:
            error.before_join = True
            raise
        return request

    def close(self) -> None:
        """End the scripts that still run, and restore the process's global state."""
        for program in self.programs:
            program.abandon()
        self.stage.leave()


def simulate(
    job: SimulatedJob, observer: SimulationObserver | None = None, recorder: TraceHash | None = None
) -> Outcome:
    """Run the script once for each worker, with real gradients, in virtual time."""
    observer = observer or SimulationObserver()
    recorder = TraceHash() if recorder is None else recorder
    scripts = _Scripts(job, observer)
    try:
        joined = _join_all(job, scripts)
        observer.on_explain(job.explained(joined[0].strategy, joined[0].replica.buckets, joined[0].compress))
        strategy = job.resolved(joined[0].strategy, joined[0].replica.buckets, joined[0].compress)
        label = job.label(joined[0].strategy, joined[0].compress)
        for seat in scripts.seats:
            seat.runs_closures = strategy.allows_closures
            seat.deals_portions = strategy.deals_portions
        _begin_all(job, scripts, joined)
        replicas: list[Replica] = [each.replica for each in joined]
        for rank, replica in enumerate(replicas):
            check_tuned(rank, replicas[0].tuned(), replica.tuned())
            if strategy.tunes:
                replica.share_tuned()
            if strategy.averages_steps:
                replica.expect_equal_steps(len(replicas))
        check_optimizers(strategy, label, replicas[0])
        world, placement = world_of(job, strategy, replicas[0].buckets)
        codecs = ready_codecs(strategy, replicas)
        replicas += [replicas[0].twin() for _ in world.servers]
        stores = [
            build_store(NumpyStore, strategy, world, node, replica, codecs=codecs, seed=job.seed, name=label)
            for node, replica in enumerate(replicas)
        ]
        reports = ModelReports(scripts.programs, replicas, strategy, world, stores[0].lend, _digests(stores))
        short_run = ShortRun(strategy, job.num_workers, observer.on_tell)
        observer = _with_total(job, strategy, scripts.seats[0], observer, short_run)
        facts = run_world(
            job, strategy, world, placement, stores, scripts.programs, reports, scripts.shares, recorder, observer
        )
        if not any(facts.steps):
            raise ConfigError(
                f"script '{job.script}' joined but never stepped.\n"
                "  Call optimizer.step() (or worker.step() for arrays) in its training loop."
            )
        short_run.end(max(facts.steps))
        arrays = [array for model in reports.result.models().values() for array in model]
        consensus = reports.result.consensus()
        trace, coding = recorder.hexdigest(), _coding(strategy, stores)
        return Outcome(label, job.num_workers, job.seed, trace, facts, consensus, arrays, replicas, coding)
    finally:
        scripts.close()


def _digests(stores: Sequence[NumpyStore]) -> Callable[[int], Mapping[str, int]]:
    """A function from rank to the current digests of that worker's replica."""
    return lambda worker: stores[worker].digests()


def _coding(strategy: Strategy, stores: Sequence[NumpyStore]) -> CodingStatus | None:
    """What codecs have done for all nodes; their times were measured in this process."""
    return in_all(told_by(store.meter, store.residual_norm()) for store in stores if strategy.codecs())


def simulate_dry(
    job: SimulatedJob, observer: SimulationObserver | None = None, recorder: TraceHash | None = None
) -> Outcome:
    """Run the script once, to its first gradient, for its layout and number of steps; then simulate without tensors."""
    observer = observer or SimulationObserver()
    recorder = TraceHash() if recorder is None else recorder
    scripts = _Scripts(job, observer)
    try:
        joined = scripts.join(0)
        joined.replica.settle()
        request = scripts.resume(0, "at step 0")
        while isinstance(request, ReportDone | SaveAsked | JoinCalled):
            if isinstance(request, JoinCalled):
                joined.replica.settle()
            request = scripts.resume(0, "at step 0")
        plan = scripts.seats[0].planned
    finally:
        scripts.close()
    if not isinstance(request, BackwardDone):
        raise ConfigError(
            f"script '{job.script}' joined but computed no gradient.\n  Call backward() in its training loop."
        )
    observer.on_explain(job.explained(joined.strategy, joined.replica.buckets, joined.compress))
    strategy = job.resolved(joined.strategy, joined.replica.buckets, joined.compress)
    ready_codecs(strategy, [joined.replica])  # refuses what a run with tensors would refuse
    total = num_steps(job, strategy, plan)
    ShortRun(strategy, job.num_workers, observer.on_tell).expect(total // job.num_workers)
    if observer.on_plan is not None:
        observer.on_plan(total)
    if strategy.tunes:
        joined.replica.share_tuned()
    facts, losses, usual = run_dry(job, strategy, joined.replica.buckets, plan, request.samples, recorder, observer)
    label, trace = job.label(joined.strategy, joined.compress), recorder.hexdigest()
    return Outcome(label, job.num_workers, job.seed, trace, facts, losses=losses, samples_per_s_undisturbed=usual)


def _with_total(
    job: SimulatedJob, strategy: Strategy, seat: ScriptSeat, observer: SimulationObserver, short_run: ShortRun
) -> SimulationObserver:
    """An observer that calls `on_plan` with the number of steps once worker 0's script has said how long it trains."""

    def first_step(facts: Facts, now_s: float) -> None:
        if facts.num_steps == 1 and seat.planned is not None and (seat.planned.num_epochs or job.steps_max):
            total = num_steps(job, strategy, seat.planned)
            facts.samples_planned = num_samples(job, strategy, seat.planned)
            short_run.expect(total // job.num_workers)
            if observer.on_plan is not None:
                observer.on_plan(total)
        if observer.on_step is not None:
            observer.on_step(facts, now_s)

    return replace(observer, on_step=first_step)


def _join_all(job: SimulatedJob, scripts: _Scripts) -> list[JoinCalled]:
    """Run all scripts until they join; all begin with worker 0's parameters."""
    joined: list[JoinCalled] = []
    before = resident_bytes()
    for rank in range(job.num_workers):
        joined.append(scripts.join(rank))
        if rank == 0:
            before = resident_bytes()
        _settle(job, rank, joined)
        if rank <= 1:
            _check_memory(job, joined[0], resident_bytes() - before)
    return joined


def _begin_all(job: SimulatedJob, scripts: _Scripts, joined: list[JoinCalled]) -> None:
    """Run all scripts on to their first iteration; those with several models join with one after another."""
    while True:
        more = [scripts.begin(rank) for rank in range(job.num_workers)]
        if not any(more):
            return
        for rank, has_more in enumerate(more):
            if has_more != more[0]:
                raise ConfigError(
                    f"worker {rank} joined with {'another model' if has_more else 'fewer models'} than worker 0.\n"
                    "  Let every worker join with the same models."
                )
            _settle(job, rank, joined)


def _settle(job: SimulatedJob, rank: int, joined: list[JoinCalled]) -> None:
    """Lay a worker's models out in buckets, with worker 0's values."""
    first, mine = joined[0].replica, joined[rank].replica
    if rank:
        _check_layout(rank, joined)
        for value, others in zip(mine.values(), first.values(), strict=True):
            value[...] = others
    if rank and job.asked(joined[0].strategy).shares_replica:
        mine.settle(allocate=partial(_beside, first))
    else:
        mine.settle()


def _beside(first: Replica, buckets: Sequence[Bucket]) -> ReplicaMemory:
    """The memory of a replica that shares worker 0's trained parameters; gradients and buffers are its own."""
    own = [np.zeros(kind.num_elements, f"f{kind.itemsize}") for kind in buckets]
    params = [first.array(PARAMS, b) if kind.trainable else own[b] for b, kind in enumerate(buckets)]
    gradient = [np.zeros_like(params[b]) for b, kind in enumerate(buckets) if kind.trainable]
    return ReplicaMemory(params, gradient, gradient)


def _check_memory(job: SimulatedJob, joined: JoinCalled, grown_bytes: int) -> None:
    """Refuse a run that will not fit: parameters, gradients, slots and two copies for the optimizer, at every node."""
    strategy = job.resolved(joined.strategy, joined.replica.buckets, joined.compress)
    world, _ = world_of(job, strategy, joined.replica.buckets)
    copies = len(strategy.slots(Role.WORKER, world)) + 4
    model_bytes = copies * sum(bucket.num_bytes for bucket in world.buckets)
    check_fits(
        job.num_workers, model_bytes * world.num_nodes // job.num_workers + max(grown_bytes, 0), available_bytes()
    )


def _check_layout(rank: int, joined: list[JoinCalled]) -> None:
    first, mine = joined[0].replica, joined[rank].replica
    if {id(thing) for other in joined[:rank] for thing in other.replica.brought} & {
        id(thing) for thing in mine.brought
    }:
        raise ConfigError(
            f"worker {rank} joined with the very objects of another worker.\n"
            "  Build the model in the script itself: modules that it imports are shared by all simulated workers."
        )
    check_layouts(rank, list(first.layout()), list(mine.layout()))
