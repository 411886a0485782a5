"""Where runs take place: on this machine, or on a Ray cluster."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from weft.config.options import RayOptions, keys
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


def read_ground(on: str | None, ray: RayOptions, said: Sequence[str], jobs: Sequence[RealJob]) -> RayPlan | None:
    """What --on and the options of Ray ask for, checked before anything starts; None is this machine.

    Options that were `said` on the command line are refused elsewhere; those of weft.toml wait for a run on Ray.
    """
    if not is_on_ray(on, [f"--set {key}" for key in keys(said) if key.startswith("ray.")]):
        return None
    for job in jobs:
        check_for_ray(job)
    bundle = read_resources(ray.resources)
    check_ray()
    return RayPlan(address_of(ray.address, os.environ), bundle)


def is_on_ray(on: str | None, said: Iterable[str]) -> bool:
    """A Ray cluster is meant; options that were said of one without meaning it are refused."""
    if on not in (None, HERE, RAY):
        raise ConfigError(f"--on '{on}' is not known.\n  {did_you_mean(str(on), (HERE, RAY))}")
    for option in said:
        if on != RAY:
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
