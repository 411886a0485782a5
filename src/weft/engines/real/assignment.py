"""What each worker of a run is told first: the job, and its own part in it."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple

from weft.engines.netem.network import connect_timeout_s
from weft.engines.real.job import RealJob
from weft.runtime.descriptors import Descriptors
from weft.runtime.messages import WorkerJob


def assigned(
    job: RealJob,
    descriptors: Descriptors,
    addresses: Sequence[str],
    secret: bytes,
    cores: Mapping[int, int] | None = None,
) -> Callable[[int], WorkerJob]:
    """From a worker's rank to what it is told; `cores` are those of each host, where they are not all on this one."""
    options = job.options
    num_cores = {0: len(os.sched_getaffinity(0))} if cores is None else cores
    hosts = job.hosts if cores is not None and job.hosts else (0,) * job.num_workers
    owns_core = all(hosts.count(host) * options.worker.threads <= num for host, num in num_cores.items())

    def of(rank: int) -> WorkerJob:
        return WorkerJob(
            rank,
            job.num_workers,
            job.seed,
            str(job.script),
            list(job.arguments),
            job.steps_max,
            job.global_batch,
            job.slow.get(rank, 1.0),
            job.transport,
            secret,
            owns_core,
            options.waiting.spin_s,
            options.buckets.bytes_max,
            options.outbox.bytes_max,
            job.checks_replay,
            job.baseline,
            descriptors,
            job.hiccups,
            list(addresses),
            connect_timeout_s(job.network, job.num_workers),
            job.sharing,
            options.shares.every,
            job.traces,
            job.pace,
            job.saves,
            job.is_probe,
            astuple(job.devices[rank]) if rank in job.devices else None,
            sorted(job.devices),
            options.reduce.place,
            list(job.hosts),
            job.network is not None,
            options.network.trusted,
            job.brings_back_to is not None,
        )

    return of
