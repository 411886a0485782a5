"""Where runs take place: on this machine, or on a Ray cluster."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from weft.core.errors import ConfigError, did_you_mean
from weft.engines.local.launcher import fork_server_of, run_local
from weft.engines.ray.cluster import address_of, check_ray
from weft.engines.ray.launch import RayPlan, check_for_ray, cluster_of, run_on_ray
from weft.engines.ray.resources import read_resources
from weft.engines.real.job import RealJob
from weft.engines.real.observer import Observer
from weft.engines.real.outcome import RealOutcome

HERE, RAY = "here", "ray"
Perform = Callable[[RealJob, Observer], RealOutcome]


def read_ground(on: str | None, address: str | None, resources: str | None, jobs: Sequence[RealJob]) -> RayPlan | None:
    """What --on and its companions ask for, checked before anything starts; None is this machine."""
    if not is_on_ray(on, address, resources):
        return None
    for job in jobs:
        check_for_ray(job)
    bundle = read_resources(resources)
    check_ray()
    return RayPlan(address_of(address, os.environ), bundle)


def is_on_ray(on: str | None, address: str | None, resources: str | None = None) -> bool:
    """A Ray cluster is meant; what is said of one without meaning it is refused."""
    if on not in (None, HERE, RAY):
        raise ConfigError(f"--on '{on}' is not known.\n  {did_you_mean(str(on), (HERE, RAY))}")
    for option, value in (("--address", address), ("--resources-per-worker", resources)):
        if on != RAY and value is not None:
            raise ConfigError(f"{option} is for a Ray cluster.\n  Add --on ray, or leave it out.")
    return on == RAY


@contextmanager
def ground(plan: RayPlan | None, jobs: Sequence[RealJob], tell: Callable[[str], None]) -> Iterator[Perform]:
    """What runs a job there, for as many as are wanted; afterwards nothing is left of it."""
    if plan is None:
        with fork_server_of(jobs[0], tell) as fork_server:
            yield partial(run_local, fork=fork_server.fork)
        return
    tell("starting Ray" if plan.address is None else f"reaching the Ray cluster at {plan.address}")
    with cluster_of(jobs[0], plan) as cluster:
        yield partial(run_on_ray, plan, cluster)
