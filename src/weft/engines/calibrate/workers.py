"""Measures the cost of a script's steps while several workers train on this machine, for simulations."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from weft.config.cluster import Cluster, HostSpec
from weft.core.errors import ConfigError
from weft.engines.local.launcher import fork_server_of, run_local
from weft.engines.real.job import RealJob
from weft.engines.real.observer import Observer
from weft.observe.records.status import Status
from weft.runtime.connections import LINKS

SMALLER = 4
"""The second measurement has batches this many times smaller, from which the fixed cost of a step follows."""


@dataclass(frozen=True)
class Point:
    """One measurement: samples per step, and CPU seconds of a worker's thread per step."""

    samples: float
    cpu_s: float


def this_machine(job: RealJob, num_steps: int, tell: Callable[[str], None] = lambda text: None) -> Cluster:
    """This machine as a cluster: one host whose workers share its cores, with the measured cost of the script's steps.

    The script is run twice, with its own batches and with smaller ones; each run begins with as many warm-up steps as
    are measured.
    """
    job = replace(job, saves=False)
    with fork_server_of(job, tell) as fork_server:
        large = _measure(replace(job, steps_max=2 * num_steps), num_steps, fork_server.fork)
        samples = max(job.num_workers, round(large.samples * job.num_workers / SMALLER))
        smaller = replace(job, steps_max=2 * num_steps, global_batch=samples)
        small = _measure(smaller, num_steps, fork_server.fork) if samples < large.samples * job.num_workers else None
    per_sample, per_step = line(large, small)
    link = LINKS[job.transport]
    return Cluster(
        name="this machine",
        hosts=(HostSpec(1, job.num_workers),),
        between=link,
        within=link,
        seconds_per_sample=per_sample,
        seconds_per_step=per_step,
        cores=len(os.sched_getaffinity(0)),
    )


def line(large: Point, small: Point | None) -> tuple[float, float]:
    """Seconds per sample, and fixed seconds per step, that fit both measurements; neither is negative."""
    if small is None or small.samples >= large.samples or small.cpu_s >= large.cpu_s:
        return large.cpu_s / large.samples, 0.0
    per_sample = (large.cpu_s - small.cpu_s) / (large.samples - small.samples)
    per_step = large.cpu_s - per_sample * large.samples
    return (per_sample, per_step) if per_step > 0 else (large.cpu_s / large.samples, 0.0)


def _measure(job: RealJob, num_steps: int, fork: Callable[..., object]) -> Point:
    told: dict[int, list[Status]] = {rank: [] for rank in range(job.num_workers)}

    def hear(status: Status) -> None:
        told[status.rank].append(status)

    outcome = run_local(job, Observer(on_status=hear), fork)  # type: ignore[arg-type]
    points = [_point([*told[status.rank], status], num_steps) for status in outcome.workers]
    if not all(point.samples for point in points):
        raise ConfigError("the steps of this script have no samples to count.\n  Take them from worker.share(...).")
    return Point(median(point.samples for point in points), median(point.cpu_s for point in points))


def _point(statuses: Sequence[Status], warmup: int) -> Point:
    """A worker's mean step after its warm-up, or over all its steps if it ended during the warm-up."""
    last = statuses[-1]
    first = next((status for status in statuses[:-1] if warmup <= status.step < last.step), None)
    begin = first or Status(
        rank=last.rank,
        time_s=0.0,
        step=0,
        samples=0.0,
        loss=None,
        waiting_s=0.0,
        staleness_mean=0.0,
        staleness_max=0.0,
        bytes_sent=0,
        num_copies=0,
        refused=0,
        steps_total=None,
        doing="",
    )
    steps = last.step - begin.step
    return Point((last.samples - begin.samples) / steps, (last.cpu_s - begin.cpu_s) / steps)
