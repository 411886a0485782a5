"""A run on a Ray cluster: an actor per worker, a host agent per host, and the run's controller in this process."""

import selectors
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from secrets import token_hex
from socket import socket

import msgspec

from weft.core.errors import ConfigError
from weft.engines.hosts.agent import AgentOrders
from weft.engines.hosts.controller import Controller
from weft.engines.hosts.worker_info import WorkerInfo, check_addresses, check_alike, check_places, home, host_numbers
from weft.engines.ray.actor import Begin, ProcessEnded, Roll
from weft.engines.ray.bridge_messages import Lost
from weft.engines.ray.cluster import RayCluster, meaning
from weft.engines.ray.resources import DEFAULT
from weft.engines.real.job import RealJob
from weft.engines.real.observer import Observer
from weft.engines.real.outcome import RealOutcome
from weft.engines.real.secret import new_secret
from weft.runtime.messages import WorkerJob
from weft.transports.door import listen

LOOPBACK = "127.0.0.1"
WAIT = "wait"


@dataclass(frozen=True)
class RayPlan:
    """The options of a run on a Ray cluster, besides its job."""

    address: str | None = None
    """The cluster's address; None: a cluster is started on this machine."""
    bundle: dict[str, float] = field(default_factory=lambda: dict(DEFAULT))
    """The resources that each worker requests."""

    def resources(self, num_workers: int) -> dict[str, float]:
        """The resources that `num_workers` workers request together."""
        return {name: amount * num_workers for name, amount in self.bundle.items()}


def cluster_of(job: RealJob, plan: RayPlan) -> RayCluster:
    """The cluster for `job`; it also serves other jobs of the same script with as many workers."""
    return RayCluster(plan.address, plan.resources(job.num_workers), job.script.resolve().parent)


def check_for_ray(job: RealJob) -> None:
    """Raise ConfigError for options that only workers of this machine have."""
    others = {
        "--net": job.network is not None,
        "--set worker.device": bool(job.devices),
        "--hosts": bool(job.hosts),
        "--baseline": job.baseline is not None,
    }
    for option in (option for option, is_used in others.items() if is_used):
        raise ConfigError(f"{option} is for workers of this machine, not for --on ray.\n  Leave out one of them.")


def run_on_ray(plan: RayPlan, cluster: RayCluster, job: RealJob, observer: Observer) -> RealOutcome:
    """Run a script on a Ray cluster; an error is raised only after the actors and their placement group are gone."""
    job = replace(job, brings_back_to=Path.cwd())
    cluster.settle(observer.on_turn)
    cluster.place([plan.bundle] * job.num_workers, job.options.ray.patience_s, observer.on_turn)
    try:
        return _lead(job, cluster, observer)
    finally:
        cluster.clear()


def _lead(job: RealJob, cluster: RayCluster, observer: Observer) -> RealOutcome:
    ask = partial(cluster.ask_all, check=observer.on_turn)
    rolls = [Roll(rank, job.script.name, cluster.address) for rank in range(job.num_workers)]
    infos = [msgspec.json.decode(raw, type=WorkerInfo) for raw in ask("present", _encoded(rolls))]
    check_places(infos)
    check_alike(infos)
    check_addresses(infos)
    hosts = host_numbers(infos)
    is_elsewhere = any(each.home != home() for each in infos)
    token, options = token_hex(16), job.options.worker
    begins = [Begin(token, host, rank, options.threads, options.keeps_memory) for rank, host in enumerate(hosts)]
    pids = [int(raw) for raw in ask("begin", _encoded(begins))]
    infos = [msgspec.structs.replace(each, pid=pid) for each, pid in zip(infos, pids, strict=True)]
    job = replace(job, hosts=tuple(hosts) if len(set(hosts)) > 1 else ())
    secret = new_secret()
    with listen(cluster.address if is_elsewhere else LOOPBACK) as listener:
        controller = RayController(job, observer, infos, listener, secret, cluster, is_elsewhere=is_elsewhere)
        try:
            for host in sorted(set(hosts)):
                host_pids = {each.rank: each.pid for each in infos if hosts[each.rank] == host}
                orders = AgentOrders(
                    host=host,
                    pids=host_pids,
                    token=token,
                    controller=listener.getsockname()[:2],
                    secret=secret,
                    is_encrypted=is_elsewhere,
                )
                cluster.ask(min(host_pids), "agent", msgspec.json.encode(orders))
            for rank in range(job.num_workers):
                cluster.ask(rank, WAIT)
            return controller.run()
        finally:
            controller.close()


def _encoded(records: Sequence[object]) -> list[bytes]:
    return [msgspec.json.encode(record) for record in records]


class RayController(Controller):
    """The controller of a run on Ray: the workers are child processes of actors, which report their exit codes."""

    def __init__(
        self,
        job: RealJob,
        observer: Observer,
        infos: Sequence[WorkerInfo],
        listener: socket,
        secret: bytes,
        cluster: RayCluster,
        *,
        is_elsewhere: bool,
    ) -> None:
        super().__init__(job, observer, infos, listener, secret, is_elsewhere=is_elsewhere)
        self._cluster = cluster
        self._selector.register(cluster.fileno(), selectors.EVENT_READ, self._hear_cluster)

    def _part(self, rank: int) -> WorkerJob:
        """The WorkerJob, with the script's bare name: workers run in the uploaded folder."""
        return msgspec.structs.replace(super()._part(rank), script=self._job.script.name)

    def _hear_cluster(self) -> None:
        for said in self._cluster.hear():
            worker = self._workers[said.rank]
            if isinstance(said, Lost):  # the worker ends with its actor (PR_SET_PDEATHSIG)
                worker.exit_code = -signal.SIGKILL
                self._observer.on_line(worker.rank, f"its Ray actor is gone: {meaning(said.text)}", True)
            elif said.command == WAIT:
                ended = msgspec.json.decode(said.answer, type=ProcessEnded)
                worker.exit_code = ended.code
                for line in ended.words.splitlines():
                    self._observer.on_line(worker.rank, line, True)
