"""Makes the first message to each worker of a run, its `WorkerJob`: the job, and the worker's own part in it."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple

from weft.config.on_loss import STOP
from weft.cost.links import Link
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
    """A function from rank to WorkerJob. `cores` has the number of cores per host; None: only this machine is used."""
    options = job.options
    num_cores = {0: len(os.sched_getaffinity(0))} if cores is None else cores
    hosts = job.hosts if cores is not None and job.hosts else (0,) * job.num_workers
    owns_core = all(hosts.count(host) * options.worker.threads <= num for host, num in num_cores.items())
    owns_core = owns_core and job.network is None  # its relay needs a core, too

    def of(rank: int) -> WorkerJob:
        return WorkerJob(
            rank=rank,
            num_workers=job.num_workers,
            seed=job.seed,
            script=str(job.script),
            arguments=list(job.arguments),
            steps_max=job.steps_max,
            global_batch=job.global_batch,
            slow=job.slow.get(rank, 1.0),
            transport=job.transport,
            secret=secret,
            owns_core=owns_core,
            spin_s=options.waiting.spin_s,
            bucket_bytes_max=options.buckets.bytes_max,
            outbox_bytes_max=options.outbox.bytes_max,
            checks_replay=job.checks_replay,
            baseline=job.baseline,
            descriptors=descriptors,
            hiccups=job.hiccups,
            addresses=list(addresses),
            connect_timeout_s=connect_timeout_s(job.network, job.num_workers),
            share=job.sharing,
            block_steps=options.shares.every,
            traces=job.traces,
            pace=job.pace,
            saves=job.saves,
            is_probe=job.is_probe,
            device=astuple(job.devices[rank]) if rank in job.devices else None,
            on_devices=sorted(job.devices),
            reduce_place=options.reduce.place,
            hosts=list(job.hosts),
            is_private=job.network is not None,
            link=None if job.network is None else Link(job.network.worst.delay_s, job.network.worst.bytes_per_s),
            trusts_network=options.network.trusted,
            survives=job.survives,
            must_survive=job.is_survival_asked or job.checkpoint is not None,
            departs=job.on_loss != STOP,
            stops_on_nan=options.run.on_nan == STOP,
            checkpoint=job.checkpoint,
            gives_back=job.brings_back_to is not None,
        )

    return of
