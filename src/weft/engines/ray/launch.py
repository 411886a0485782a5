"""A run on a Ray cluster: a post for each worker, a steward on each host, and the head of the run in this process."""

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
from weft.engines.hosts.agent import Orders
from weft.engines.hosts.controller import Head
from weft.engines.hosts.worker_info import Presence, check_addresses, check_alike, check_places, home, host_numbers
from weft.engines.ray.actor import Begin, Ended, Roll
from weft.engines.ray.bridge_messages import Lost
from weft.engines.ray.cluster import Cluster, meaning
from weft.engines.ray.resources import DEFAULT
from weft.engines.real.job import LocalJob
from weft.engines.real.observer import Watcher
from weft.engines.real.outcome import LocalOutcome
from weft.engines.real.secret import new_secret
from weft.runtime.channel import Job
from weft.transports.tcp import listen

LOOPBACK = "127.0.0.1"
WAIT = "wait"


@dataclass(frozen=True)
class RayPlan:
    """What a run on a Ray cluster is told besides its job."""

    address: str | None = None
    """Of the cluster; None: one of our own."""
    bundle: dict[str, float] = field(default_factory=lambda: dict(DEFAULT))
    """What each worker asks for."""

    def resources(self, num_workers: int) -> dict[str, float]:
        """What all of them ask for."""
        return {name: amount * num_workers for name, amount in self.bundle.items()}


def cluster_of(job: LocalJob, plan: RayPlan) -> Cluster:
    """The cluster for a job, and for all others with the same script and as many workers."""
    return Cluster(plan.address, plan.resources(job.num_workers), job.script.resolve().parent)


def check_for_ray(job: LocalJob) -> None:
    """Refuse what only processes of this machine can do."""
    others = {
        "--net": job.network is not None,
        "--device": bool(job.devices),
        "--hosts": bool(job.hosts),
        "--baseline": job.baseline is not None,
    }
    for option in (option for option, is_used in others.items() if is_used):
        raise ConfigError(f"{option} is for workers of this machine, not for --on ray.\n  Leave out one of them.")


def run_on_ray(plan: RayPlan, cluster: Cluster, job: LocalJob, watcher: Watcher) -> LocalOutcome:
    """Run a script on a Ray cluster; raises what went wrong when nothing of it is left there."""
    job = replace(job, brings_back_to=Path.cwd())
    cluster.settle(watcher.on_turn)
    cluster.place([plan.bundle] * job.num_workers, job.options.ray.patience_s, watcher.on_turn)
    try:
        return _lead(job, cluster, watcher)
    finally:
        cluster.clear()


def _lead(job: LocalJob, cluster: Cluster, watcher: Watcher) -> LocalOutcome:
    ask = partial(cluster.ask_all, check=watcher.on_turn)
    rolls = [Roll(rank, job.script.name, cluster.address) for rank in range(job.num_workers)]
    crew = [msgspec.json.decode(raw, type=Presence) for raw in ask("present", _encoded(rolls))]
    check_places(crew)
    check_alike(crew)
    check_addresses(crew)
    hosts = host_numbers(crew)
    is_elsewhere = any(each.home != home() for each in crew)
    meeting, options = token_hex(16), job.options.worker
    begins = [Begin(meeting, host, rank, options.threads, options.keeps_memory) for rank, host in enumerate(hosts)]
    pids = [int(raw) for raw in ask("begin", _encoded(begins))]
    crew = [msgspec.structs.replace(each, pid=pid) for each, pid in zip(crew, pids, strict=True)]
    job = replace(job, hosts=tuple(hosts) if len(set(hosts)) > 1 else ())
    secret = new_secret()
    with listen(cluster.address if is_elsewhere else LOOPBACK) as listener:
        head = RayHead(job, watcher, crew, listener, secret, cluster, is_elsewhere=is_elsewhere)
        try:
            for host in sorted(set(hosts)):
                wards = {each.rank: each.pid for each in crew if hosts[each.rank] == host}
                orders = Orders(host, wards, meeting, listener.getsockname()[:2], secret, is_elsewhere)
                cluster.ask(min(wards), "steward", msgspec.json.encode(orders))
            for rank in range(job.num_workers):
                cluster.ask(rank, WAIT)
            return head.run()
        finally:
            head.close()


def _encoded(records: Sequence[object]) -> list[bytes]:
    return [msgspec.json.encode(record) for record in records]


class RayHead(Head):
    """The head of a run whose workers' processes are children of posts, which know how they end."""

    def __init__(
        self,
        job: LocalJob,
        watcher: Watcher,
        crew: Sequence[Presence],
        listener: socket,
        secret: bytes,
        cluster: Cluster,
        *,
        is_elsewhere: bool,
    ) -> None:
        super().__init__(job, watcher, crew, listener, secret, is_elsewhere=is_elsewhere)
        self._cluster = cluster
        self._selector.register(cluster.fileno(), selectors.EVENT_READ, self._hear_cluster)

    def _part(self, rank: int) -> Job:
        """A worker finds the script in the folder that was shipped, which is where it runs."""
        return msgspec.structs.replace(super()._part(rank), script=self._job.script.name)

    def _hear_cluster(self) -> None:
        for said in self._cluster.hear():
            worker = self._workers[said.rank]
            if isinstance(said, Lost):  # a post takes its worker along
                worker.exit_code = -signal.SIGKILL
                self._watcher.on_line(worker.rank, f"its Ray actor is gone: {meaning(said.text)}", True)
            elif said.deed == WAIT:
                ended = msgspec.json.decode(said.answer, type=Ended)
                worker.exit_code = ended.code
                for line in ended.words.splitlines():
                    self._watcher.on_line(worker.rank, line, True)
