"""Measures what steps of a script cost on this machine while several workers train: the figures of a simulation."""

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
"""The second batch has so many times fewer samples: that tells what a step costs besides them."""


@dataclass(frozen=True)
class Point:
    """Steps of so many samples took a worker's thread so many seconds of a core each."""

    samples: float
    cpu_s: float


def this_machine(job: RealJob, num_steps: int, tell: Callable[[str], None] = lambda text: None) -> Cluster:
    """This machine as a cluster: a host whose workers share its cores, with what steps of this script cost there.

    The script is run twice, with its own batches and with smaller ones; as many steps as are measured warm up.
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
    """Seconds per sample, and per step besides, that give both measured costs; neither is less than nothing."""
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
    """A worker's mean step after its warm-up, or of all its steps if it ended before it was warm."""
    last = statuses[-1]
    first = next((status for status in statuses[:-1] if warmup <= status.step < last.step), None)
    begin = Status(last.rank, 0.0, 0, 0.0, None, 0.0, 0.0, 0.0, 0, 0, 0, None, "") if first is None else first
    steps = last.step - begin.step
    return Point((last.samples - begin.samples) / steps, (last.cpu_s - begin.cpu_s) / steps)
