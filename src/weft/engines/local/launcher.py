"""The launcher of `weft run` on this machine: starts workers by a fork server, supervises them, and cleans up."""

import os
import selectors
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from weft.core.errors import NodeLost
from weft.engines.local.chaos import Chaos
from weft.engines.local.forked_workers import ForkServer, LocalWorker, Process
from weft.engines.netem.namespaces import address
from weft.engines.netem.network import SlowNetwork
from weft.engines.real.assignment import assigned
from weft.engines.real.echoes import Echoes
from weft.engines.real.failure import has_left
from weft.engines.real.host_memory import make_memories, share_out, spread_values
from weft.engines.real.job import RealJob
from weft.engines.real.kernels import compile_kernels
from weft.engines.real.observer import Observer
from weft.engines.real.outcome import RealOutcome
from weft.engines.real.secret import new_secret
from weft.engines.real.stopped_processes import process_state
from weft.engines.real.supervisor import Supervisor
from weft.engines.real.worker_env import worker_env
from weft.engines.real.worker_output import Output
from weft.runtime.messages import Message, SpoilGradients, WorkerJob

Fork = Callable[[int, Sequence[int], Callable[[], None]], list[Process]]
"""Forks workers: takes their number, the descriptors they share, and a check that is called while they are awaited."""


def fork_server_of(
    job: RealJob, tell: Callable[[str], None] = lambda text: None, codecs: Sequence[str | None] = ()
) -> ForkServer:
    """A fork server for `job`, which also serves other jobs of the same script and options with any of `codecs`.

    The kernels of the codecs are compiled first; `tell` is told if that takes long.
    """
    worker = job.options.worker
    environment = worker_env(os.environ, worker.threads, keeps_memory=worker.keeps_memory)
    compiled = [module for compress in (job.compress, *codecs) for module in compile_kernels(compress, tell)]
    return ForkServer(job.script, environment, list(dict.fromkeys(compiled)))


def run_local(job: RealJob, observer: Observer | None = None, fork: Fork | None = None) -> RealOutcome:
    """Run a script on real workers of this machine; an error is raised only after every process has ended."""
    if fork is None:
        with fork_server_of(job) as fork_server:
            return run_local(job, observer, fork_server.fork)
    launch = Launch(job, observer or Observer(), fork)
    try:
        return launch.run()
    finally:
        launch.close()


class Launch(Supervisor):
    """The processes of one run on this machine, from their start to the end of the last one."""

    def __init__(self, job: RealJob, observer: Observer, fork: Fork) -> None:
        super().__init__(job, observer)
        self._fork = fork
        self._descriptors: list[int] = []
        self._assigned: Callable[[int], WorkerJob]
        self._workers: list[LocalWorker] = []
        self._outputs: list[Output] = []
        self._network: SlowNetwork | None = None
        self._echoes = Echoes(job.num_workers, observer.on_line)
        self._chaos = None if job.chaos is None else Chaos(job.chaos, self._strike)

    def _start(self) -> None:
        job = self._job
        hosts = job.hosts or (0,) * job.num_workers
        for host in range(job.num_hosts):
            self._descriptors += make_memories(hosts.count(host))
        addresses: list[str] = []
        if job.network is not None:
            self._network = SlowNetwork(job.network, job.num_addresses, job.seed)
            self._descriptors += self._network.namespaces
            self._selector.register(self._network.fileno(), selectors.EVENT_READ, self._hear_network)
            addresses = [address(host) for host in job.hosts or range(job.num_workers)]
        processes = self._fork(job.num_workers, self._descriptors, self._check_interrupts)
        for rank, process in enumerate(processes):
            self._workers.append(LocalWorker(rank, process))
            self._watch(self._workers[rank])
        each = share_out(self._descriptors, hosts, job.num_addresses if addresses else 0)
        self._session.on_joined = partial(spread_values, each, hosts[0])
        self._assigned = assigned(job, each[0], addresses, new_secret())
        for rank in range(job.num_workers):
            self._send(rank, self._assigned(rank))

    def _start_newcomer(self, rank: int) -> None:
        (process,) = self._fork(1, self._descriptors, self._observer.on_turn)
        self._workers[rank] = LocalWorker(rank, process)
        self._watch(self._workers[rank])
        first_view = self._survival.views.view + 1 if self._session.has_begun else 0
        self._send(rank, msgspec.structs.replace(self._assigned(rank), first_view=first_view))

    def _watch(self, worker: LocalWorker) -> None:
        self._selector.register(worker.channel.fileno(), selectors.EVENT_READ, partial(self._hear, worker))
        self._selector.register(worker.process.pidfd, selectors.EVENT_READ, partial(self._reap, worker))
        for descriptor, is_error in ((worker.process.output, False), (worker.process.error, True)):
            output = Output(descriptor, partial(self._show, worker.rank, is_error))
            self._outputs.append(output)
            self._selector.register(descriptor, selectors.EVENT_READ, partial(self._copy, output))

    def _show(self, rank: int, is_error: bool, text: str) -> None:
        self._echoes.take(rank, text, is_error, time.perf_counter())

    def _turn(self, timeout_s: float) -> None:
        super()._turn(timeout_s)
        self._echoes.check(time.perf_counter())
        if self._chaos is not None and self._session.has_begun and not self._session.ended:
            struck = self._chaos.check(time.perf_counter(), self._survival.strikable())
            if struck is not None:
                self._observer.on_tell(struck)

    def _strike(self, rank: int, number: int | None) -> None:
        if number is None:
            self._send(rank, SpoilGradients())
            return
        signal.pidfd_send_signal(self._workers[rank].process.pidfd, number)

    def _send(self, rank: int, message: Message) -> None:
        """Never blocks: a worker that does not read, because it is stopped, must not hold up the others."""
        worker = self._workers[rank]
        if not worker.channel.is_closed:
            with suppress(OSError):  # the worker is gone, which its pidfd tells
                worker.channel.post(message)
                self._watch_for_room(worker)

    def _watch_for_room(self, worker: LocalWorker) -> None:
        """Let `_hear` send the rest while messages to a worker wait."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if worker.channel.waiting_bytes else 0)
        key = self._selector.get_key(worker.channel.fileno())
        if key.events != events:
            self._selector.modify(key.fd, events, key.data)

    def _copy(self, output: Output) -> None:
        if not output.read():
            self._selector.unregister(output.fileno())
            output.close()

    def _hear(self, worker: LocalWorker) -> None:
        if worker.channel.waiting_bytes:
            with suppress(OSError):
                worker.channel.flush()
                self._watch_for_room(worker)
        for message in worker.channel.receive(wait=False):
            if worker is self._workers[worker.rank]:  # else it is dead, and a newcomer has taken its place
                self._take(worker, message)
        if worker.has_joined:
            self._echoes.release(worker.rank)
        if worker.channel.is_closed:
            self._selector.unregister(worker.channel.fileno())
            worker.channel.close()

    def _hear_network(self) -> None:
        assert self._network is not None
        try:
            self._network.hear()
        except NodeLost as error:
            self._selector.unregister(self._network.fileno())
            self._error = error
            return
        self._watchdog.hear_network(time.perf_counter())

    def _states(self) -> dict[int, str]:
        return {worker.rank: process_state(worker.pid) for worker in self._workers if worker.is_alive}

    def _reap(self, worker: LocalWorker) -> None:
        """A worker's pidfd is readable: its process has ended. Take what is left in its channel, then reap it."""
        if not worker.channel.is_closed:
            self._hear(worker)
        self._selector.unregister(worker.process.pidfd)
        worker.process.wait()
        worker.exit_code = worker.process.exit_code
        worker.is_alive = False

    def _end_one(self, rank: int) -> None:
        if self._workers[rank].is_alive:
            self._workers[rank].process.kill()

    def _end_all(self) -> None:
        for worker in self._workers:
            if worker.is_alive:
                worker.process.kill()

    def _drain(self) -> None:
        deadline = time.perf_counter() + 0.5
        while any(not output.is_closed for output in self._outputs) and time.perf_counter() < deadline:
            self._turn(0.05)
        self._echoes.end(have_left=any(worker.failed and has_left(worker.failed) for worker in self._workers))

    def _network_figures(self) -> dict[str, Any] | None:
        return None if self._network is None else self._network.conclude()

    def close(self) -> None:
        """Kill and reap all workers, and close their channels, pipes and shared memory."""
        self._kill()
        if self._network is not None:
            self._network.close()
        for worker in self._workers:
            if not worker.channel.is_closed:
                worker.channel.close()
        for output in self._outputs:
            if not output.is_closed:
                output.close()
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()
        super().close()
