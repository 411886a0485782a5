"""The controller of a run on several hosts: hears and answers all workers through their host agents."""

import socket
import time
from collections.abc import Mapping, Sequence
from functools import partial
from secrets import token_bytes
from statistics import median
from typing import Any

from weft.core.errors import NodeLost, TransportError, WeftError
from weft.engines.hosts import agent_link, timeouts
from weft.engines.hosts.agent_link import CONTROLLER, AgentLink, Relayed
from weft.engines.hosts.worker_info import WorkerInfo, host_numbers, rooms
from weft.engines.real.assignment import assigned
from weft.engines.real.job import RealJob
from weft.engines.real.observer import Observer
from weft.engines.real.outcome import RealOutcome
from weft.engines.real.supervisor import Supervisor
from weft.engines.real.worker_record import WorkerRecord
from weft.runtime.channel import packed
from weft.runtime.descriptors import Descriptors
from weft.runtime.messages import Message, WorkerJob
from weft.transports.door import Door
from weft.transports.handshake import NONCE_BYTES, Candidate, Steps, answer
from weft.transports.transport import Rank


class HostRecord:
    """One host, as the controller sees it."""

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self.link: AgentLink | None = None
        self.states: dict[int, str] = {}
        self.workers: list[WorkerRecord] = []


class Controller(Supervisor):
    """Supervises one run on several hosts, through one agent link per host. One thread, one selector."""

    def __init__(
        self,
        job: RealJob,
        observer: Observer,
        infos: Sequence[WorkerInfo],
        listener: socket.socket,
        secret: bytes,
        *,
        is_elsewhere: bool = False,
    ) -> None:
        """`infos` are the workers in order of rank; their host agents connect to `listener`.

        `is_elsewhere`: some workers are not on the controller's host, even if all workers share one host.
        """
        super().__init__(job, observer)
        self._infos = infos
        self._is_elsewhere = is_elsewhere
        self._heartbeat_s = self._turned_s = time.monotonic()
        self._num_signals = 0
        self._secret = secret
        self._host_of = host_numbers(infos)
        self._session.rooms = rooms(infos)
        self._values: list[bytes] = []
        """Packets of initial values, kept for hosts whose agents have not connected yet."""
        self._workers = [WorkerRecord(each.rank, each.host, each.pid) for each in infos]
        self._hosts: list[HostRecord] = []
        for worker, number, each in zip(self._workers, self._host_of, infos, strict=True):
            if number == len(self._hosts):
                self._hosts.append(HostRecord(each.host, each.address))
            self._hosts[number].workers.append(worker)
        is_encrypted = is_elsewhere or len(self._hosts) > 1
        tls = None
        if is_encrypted:
            from weft.transports.certificates import Authority, contexts

            tls = contexts(Authority.of(secret).issue(CONTROLLER)).answer
        self._door = Door(listener, self._answer, tls, self._selector, time.monotonic)
        self.refused = self._door.refused
        """Number of refused connections, by reason."""

    def run(self) -> RealOutcome:
        """Supervise the run to its end; if it fails, send the reason to every host agent."""
        try:
            return super().run()
        except WeftError as error:
            trace = error.traceback if isinstance(error, NodeLost) else ""
            self._explain(f"weft: {error}" + (f"\n{trace}" if trace else ""))
            raise

    def _explain(self, text: str) -> None:
        """Let every host agent print `text`; if the agent of the controller's host is gone, the controller does."""
        for host in self._hosts:
            if host.link is not None:
                host.link.send(agent_link.RunFailed(text))
        here = self._hosts[0].link
        if not self._is_elsewhere and (here is None or here.is_closed):
            self._observer.on_tell(text)

    def _answer(self, certified: Rank | None) -> Steps:
        def objection(caller: Rank, view: int) -> str | None:
            if caller >= len(self._hosts) or certified not in (None, caller):
                return "wrong host"
            return "duplicate host" if self._hosts[caller].link is not None else None

        return answer(CONTROLLER, objection, self._secret, token_bytes(NONCE_BYTES))

    def _start(self) -> None:
        """Wait until all host agents have connected. Each worker is sent its WorkerJob on `WorkerConnected`."""
        descriptors = Descriptors(-1, -1, -1, -1, [])
        addresses = [each.address for each in self._infos] if len(self._hosts) > 1 else []
        cores = {number: each.cores for number, each in zip(self._host_of, self._infos, strict=True)}
        self._assignment = assigned(self._job, descriptors, addresses, self._secret, cores)
        deadline_s = time.monotonic() + timeouts.AGENTS_CALL_S_MAX
        while missing := [host for host in self._hosts if host.link is None]:
            if time.monotonic() > deadline_s:
                raise TransportError(
                    f"the run's controller waited {timeouts.AGENTS_CALL_S_MAX:g} s for "
                    f"{', '.join(f'host {host.name} ({host.address})' for host in missing)}.\n"
                    "  Can it reach this host? Look at what it printed, and at firewalls between them: "
                    "weft doctor --cluster says more."
                )
            self._turn(0.05)
            self._check_interrupts()
            self._check()

    def _part(self, rank: int) -> WorkerJob:
        """The WorkerJob of worker `rank`, the first message on its channel."""
        return self._assignment(rank)

    def _turn(self, timeout_s: float) -> None:
        # if the controller itself was held up, the silence of others means nothing
        if time.monotonic() - self._turned_s > timeouts.OWN_STALL_S:
            for link in self._links():
                link.heard_s = time.monotonic()
        for key, _ in self._selector.select(timeout_s):
            if isinstance(key.data, Door):
                key.data.accept()
            elif isinstance(key.data, Candidate):
                self._let_in(key.data)
            else:
                key.data()
        self._door.dismiss_the_slow()
        self._check_hosts()
        self._observer.on_turn()
        self._turned_s = time.monotonic()

    def _links(self) -> list[AgentLink]:
        return [host.link for host in self._hosts if host.link is not None]

    def _let_in(self, candidate: Candidate) -> None:
        number = self._door.advance(candidate)
        if number is not None:
            host = self._hosts[number]
            host.link = AgentLink(candidate.sock, self._selector, partial(self._hear, host), partial(self._lose, host))
            for packet in self._values:
                host.link.pass_on(packet)
            if all(each.link is not None for each in self._hosts):
                self._values.clear()

    def _hear(self, host: HostRecord, message: Relayed) -> None:
        if isinstance(message, agent_link.Values):
            self._spread(host, packed(message))
        elif isinstance(message, agent_link.AgentHeartbeat):
            host.states = message.states
        elif isinstance(message, agent_link.OfWorker):
            if not 0 <= message.rank < len(self._workers) or self._workers[message.rank] not in host.workers:
                raise TransportError(f"host {host.name} speaks for worker {message.rank}, which is not on it")
            self._hear_of(self._workers[message.rank], message)

    def _spread(self, source: HostRecord, packet: bytes) -> None:
        """Send a packet of initial values to all other hosts; it is kept for those that have not connected yet."""
        for host in self._hosts:
            if host.link is not None and host is not source:
                host.link.pass_on(packet)
        if any(host.link is None for host in self._hosts):
            self._values.append(packet)

    def _hear_of(
        self,
        worker: WorkerRecord,
        message: agent_link.OfWorker,
    ) -> None:
        if isinstance(message, agent_link.WorkerMessage):
            self._take(worker, message.message)
        elif isinstance(message, agent_link.WorkerConnected):
            self._send(worker.rank, self._part(worker.rank))
        elif isinstance(message, agent_link.WorkerOutput):
            self._observer.on_line(worker.rank, message.text, message.is_error)
        elif isinstance(message, agent_link.InterruptRequested):
            self._num_interrupts = max(self._num_interrupts, message.times)
        else:
            worker.is_alive = False

    def _guilty(self) -> WorkerRecord | None:
        """The worker that failed first. If it has sent `Failed`, waits up to FAILED_ENDS_S for its process to end.

        So torchrun or srun, too, sees this worker fail before the others.
        """
        guilty = super()._guilty()
        if guilty is not None and guilty.failed is not None:
            deadline_s = time.monotonic() + timeouts.FAILED_ENDS_S
            while guilty.is_alive and time.monotonic() < deadline_s:
                self._turn(0.02)
        return guilty

    def _lose(self, host: HostRecord, why: str) -> None:
        for worker in host.workers:
            if worker.is_alive:
                worker.lost = f"host {host.name} ({host.address}) is gone: {why}"
                worker.is_alive = False

    def _check_hosts(self) -> None:
        """Give up hosts that are silent, and send the controller's heartbeat to all agents."""
        steps_s = [w.status.time_s / w.status.step for w in self._workers if w.status is not None and w.status.step]
        patience_s = max(timeouts.AGENT_SILENT_S, timeouts.AGENT_SILENT_STEPS * median(steps_s or [0.0]))
        now_s = time.monotonic()
        for host in self._hosts:
            if host.link is not None and not host.link.is_closed and now_s - host.link.heard_s > patience_s:
                host.link.close()
                self._lose(host, f"nothing was heard of it for {now_s - host.link.heard_s:.1f} s")
        if now_s >= self._heartbeat_s:
            self._heartbeat_s = now_s + timeouts.HEARTBEAT_S
            for link in self._links():
                link.send(agent_link.ControllerHeartbeat(patience_s))

    def _interrupt(self, number: int, frame: Any) -> None:
        """Count a signal. The workers may have got the same one: the larger of both counts is used, not the sum."""
        self._num_signals += 1
        self._num_interrupts = max(self._num_interrupts, self._num_signals)

    def _send(self, rank: int, message: Message) -> None:
        link = self._hosts[self._host_of[rank]].link
        if link is not None:
            link.send(agent_link.Tell(rank, message))

    def _states(self) -> Mapping[int, str]:
        return {rank: state for host in self._hosts for rank, state in host.states.items()}

    def _end_all(self) -> None:
        for link in self._links():
            link.send(agent_link.Kill())

    def _kill(self) -> None:
        """Have all host agents kill their workers. An unreachable agent does so itself when it misses heartbeats."""
        self._end_all()
        deadline_s = time.monotonic() + timeouts.AGENT_SILENT_S
        while self._anybody_lives() and time.monotonic() < deadline_s:
            self._turn(0.05)
        for worker in self._workers:
            worker.is_alive = False

    def _drain(self) -> None:
        """Nothing to do: `WorkerExited` follows everything that a worker wrote, on the same link."""

    def close(self) -> None:
        """Close all links, after waiting up to FAREWELL_S_MAX for each outbox to empty."""
        for link in self._links():
            link.linger(timeouts.FAREWELL_S_MAX)
            link.close()
        self._door.close()
        super().close()
