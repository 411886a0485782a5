"""The host agent: makes the memory that its workers share, watches them by pidfd, and relays their channels.

Started by the host's first worker as `python -m weft.engines.hosts.agent`, with its orders on standard input. It ends
when all workers of its host have ended, for whatever reason; when it or the run's controller is gone, its workers end.

One thread and one selector. A worker is in one of these states:

| state    | kept in                       | leaves it by                                                              |
|----------|-------------------------------|---------------------------------------------------------------------------|
| expected | `_workers`, `channel` is None | connecting with the right pid (SO_PEERCRED), or its end (pidfd)           |
| let in   | `_workers`, with a channel    | `Leaving` on the channel, or its end (pidfd); both send `WorkerExited`    |
| leaving  | `_leaving`                    | the end of this process, for which the worker waits                       |
"""

import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from math import inf

import msgspec
from msgspec import Struct

from weft.core.errors import TransportError, WeftError
from weft.engines.hosts import agent_link, timeouts
from weft.engines.hosts.agent_link import CONTROLLER, AgentLink, Relayed
from weft.engines.hosts.agent_socket import LET_IN, Hello, address_of
from weft.engines.hosts.agent_worker import AgentWorker
from weft.engines.hosts.launch_env import LaunchPlacement
from weft.engines.hosts.siblings import rank_in
from weft.engines.real import timeouts as real_timeouts
from weft.engines.real.child_processes import say
from weft.engines.real.fd_passing import send_fds
from weft.engines.real.host_memory import make_memories
from weft.engines.real.stopped_processes import Stops, process_state
from weft.engines.real.worker_output import Output
from weft.observe.records.status import Status
from weft.runtime.channel import peer_of
from weft.runtime.initial_values import add_piece, pieces
from weft.runtime.messages import Concluded, Failed, Leaving, ScriptJoined
from weft.transports.dialing import dial

BACKLOG_BYTES_MAX = 4 << 20
"""While more than this waits for the controller, statuses are left out: newer ones will come."""


class AgentOrders(Struct, frozen=True, kw_only=True):
    """What a host agent is told, on standard input: the secret must not be on a command line."""

    host: int
    """The number of this host."""
    pids: dict[int, int]
    """The process id of each worker of this host, by rank."""
    token: str
    """The run token: part of the agent socket's name."""
    controller: tuple[str, int]
    secret: bytes
    is_encrypted: bool
    """The agent link uses TLS, and worker 0's initial values go through it, because there are other hosts."""
    placed: LaunchPlacement | None = None
    """The placement of the worker that started this host agent, if a launcher's environment variables say it."""


class HostAgent:
    """The agent of one host: its shared memory, its workers, and the link to the controller."""

    def __init__(self, orders: AgentOrders) -> None:
        self._orders = orders
        self._because = self._last_words = ""
        self._concluded: set[int] = set()
        """Ranks of the workers that have sent `Concluded`, that is, finished without an error."""
        self._selector = selectors.DefaultSelector()
        self._memories = make_memories(len(orders.pids))
        self._initial = self._memories[2]
        self._workers: dict[int, AgentWorker] = {}
        self._leaving: list[AgentWorker] = []
        """Workers that have said `Leaving` and wait for this process to end."""
        self._values: Iterator[bytes] = iter(())
        """Pieces of worker 0's initial values still to be sent; until then, `_joined` holds its `ScriptJoined` back."""
        self._values_start = 0
        self._joined: agent_link.WorkerMessage | None = None
        self._patience_s = timeouts.FIRST_HEARTBEAT_S_MAX
        self._orphaned_s = inf
        """When to kill the workers that have not ended by themselves after the controller was lost."""
        self._turned_s = time.monotonic()
        for rank, pid in sorted(orders.pids.items()):
            self._take_in(rank, pid)
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._door.bind(address_of(orders.token, orders.host))
        self._door.listen(len(orders.pids))
        self._selector.register(self._door, selectors.EVENT_READ, self._answer_door)
        tls = None
        if orders.is_encrypted:
            from weft.transports.certificates import Authority, contexts

            tls = contexts(Authority.of(orders.secret).issue(orders.host)).call
        sock = dial(
            orders.controller,
            me=orders.host,
            other=CONTROLLER,
            secret=orders.secret,
            tls=tls,
            timeout_s=timeouts.AGENT_CONNECTED_S_MAX,
            who="the run's controller",
        )
        self._link = AgentLink(sock, self._selector, self._hear_controller, self._lose_controller)

    def _take_in(self, rank: int, pid: int) -> None:
        try:
            worker = self._workers[rank] = AgentWorker(rank, pid)
        except ProcessLookupError:  # the worker ended before pidfd_open
            return
        self._selector.register(worker.pidfd, selectors.EVENT_READ, partial(self._reap, rank))

    def run(self) -> None:
        """Serve until all workers of this host have ended; then print why, if the run has failed."""
        for rank in self._orders.pids.keys() - self._workers.keys():
            self._link.send(agent_link.WorkerExited(rank))
        heartbeat_s = 0.0
        while self._workers:
            self._turn()
            if time.monotonic() >= heartbeat_s:
                heartbeat_s = time.monotonic() + timeouts.HEARTBEAT_S
                self._link.send(
                    agent_link.AgentHeartbeat(
                        {rank: process_state(worker.pid) for rank, worker in self._workers.items()}
                    )
                )
            if time.monotonic() >= self._orphaned_s:
                self._kill()
        deadline_s = time.monotonic() + timeouts.LAST_WORDS_S_MAX
        while (
            not self._link.is_closed and time.monotonic() < deadline_s
        ):  # the controller closes the link when it has heard all
            self._turn()
        if not self._because and not self._link.is_closed and self._concluded < self._orders.pids.keys():
            self._because = f"weft: the run's controller is silent. {self._last_words}"
        self._end_stopped()
        if self._because:
            print(self._because, file=sys.stderr, flush=True)

    def _end_stopped(self) -> None:
        """Kill the workers in `_leaving` that are stopped (SIGSTOP): they would not end after this process."""
        stops = Stops[int]()
        while stopped := stops.see(
            {worker.rank: process_state(worker.pid) for worker in self._leaving}, time.monotonic()
        ):
            for worker in (
                worker for worker in self._leaving if stopped.get(worker.rank, 0.0) > real_timeouts.PROCESS_STOPPED_S
            ):
                say(
                    f"weft: worker {worker.rank} (pid {worker.pid}) is stopped after its script had ended: "
                    "it is ended.\n  Find out who stopped it."
                )
                worker.kill()
            time.sleep(timeouts.HEARTBEAT_S / 2)

    def _turn(self) -> None:
        """Serve what is ready. A silent controller counts as lost, unless this process itself was held up meanwhile."""
        was_held_up = time.monotonic() - self._turned_s > timeouts.OWN_STALL_S
        for key, _ in self._selector.select(timeouts.HEARTBEAT_S / 2):
            key.data()
        self._turned_s = time.monotonic()
        for worker in self._workers.values():
            worker.flush()
        self._send_values()
        silence_s = self._turned_s - self._link.heard_s
        if was_held_up:
            self._link.heard_s = self._turned_s
        elif not self._link.is_closed and silence_s > self._patience_s:
            self._link.close()
            self._lose_controller(f"nothing was heard of it for {silence_s:.1f} s")

    def close(self) -> None:
        """Close the link, the socket, all workers' descriptors and the shared memory."""
        self._link.close()
        self._door.close()
        for worker in (*self._workers.values(), *self._leaving):
            worker.close()
        for fd in self._memories:
            os.close(fd)
        self._selector.close()

    def _answer_door(self) -> None:
        """Let a worker of this host in, if the kernel confirms its pid and uid (SO_PEERCRED)."""
        end, _ = self._door.accept()
        fds: list[int] = []
        with end:
            try:
                fds = self._let_in(end)
            except (OSError, msgspec.DecodeError, TransportError) as error:  # closing the socket refuses it
                print(f"weft: a process is not let in by the host agent: {error}", file=sys.stderr, flush=True)
        for fd in fds:
            os.close(fd)

    def _let_in(self, end: socket.socket) -> list[int]:
        """Give a worker its channel and memory; returns those of its descriptors that the caller has to close."""
        pid, uid = peer_of(end)
        worker = next(
            (worker for worker in self._workers.values() if worker.pid == pid and worker.channel is None), None
        )
        if uid != os.geteuid() or worker is None:
            raise TransportError(f"process {pid} of user {uid} is no worker that is awaited here")
        end.settimeout(timeouts.HELLO_S_MAX)
        raw, fds, _, _ = socket.recv_fds(end, 1 << 10, 3)
        if not fds or msgspec.json.decode(raw, type=Hello).rank != worker.rank:
            return fds
        mine, theirs = socket.socketpair()
        with theirs:
            try:
                send_fds(end, LET_IN, [theirs.fileno(), *self._memories])
            except OSError:  # the worker died meanwhile, which its pidfd will tell
                mine.close()
                return fds
        self._attend(worker, mine, fds)
        return []

    def _attend(self, worker: AgentWorker, end: socket.socket, fds: Sequence[int]) -> None:
        worker.let_in(end, fds)
        self._selector.register(worker.signals, selectors.EVENT_READ, partial(self._hear_signals, worker))
        for descriptor, is_error in zip(fds[1:], (False, True), strict=False):
            output = Output(descriptor, partial(self._pass_line, worker.rank, is_error))
            worker.outputs.append(output)
            self._selector.register(descriptor, selectors.EVENT_READ, partial(self._copy, output))
        self._selector.register(end, selectors.EVENT_READ, partial(self._hear, worker))
        self._link.send(agent_link.WorkerConnected(worker.rank, worker.pid))

    def _hear(self, worker: AgentWorker) -> None:
        channel = worker.channel
        if channel is None or channel.is_closed or worker.rank not in self._workers:
            return
        for message in channel.receive(wait=False):
            if isinstance(message, Leaving):
                self._leaving.append(worker)
                self._let_go(worker)
                return
            if isinstance(message, Status) and self._link.waiting_bytes > BACKLOG_BYTES_MAX:
                continue
            if isinstance(message, Concluded):
                self._concluded.add(worker.rank)
            elif isinstance(message, Failed):
                self._last_words = f"Worker {worker.rank} failed at step {message.step}: {message.text}"
            said = agent_link.WorkerMessage(worker.rank, message)
            if isinstance(message, ScriptJoined) and worker.rank == 0 and self._orders.is_encrypted:
                self._values, self._joined = pieces(self._initial), said  # worker 0 is silent until this is answered
                self._values_start = 0
                self._send_values()
            else:
                self._link.send(said)
        if (
            channel.is_closed and channel.fileno() >= 0
        ):  # fileno() < 0: the controller was lost meanwhile, and the channel is closed already
            self._selector.unregister(channel.fileno())
            channel.close()

    def _send_values(self) -> None:
        """Send worker 0's initial values to the controller, no faster than it takes them; then its `ScriptJoined`."""
        while self._joined is not None and self._link.waiting_bytes < BACKLOG_BYTES_MAX:
            piece = next(self._values, None)
            if piece is None:
                self._link.send(self._joined)
                self._joined = None
            else:
                self._link.send(agent_link.Values(self._values_start, piece))
                self._values_start += len(piece)

    def _hear_signals(self, worker: AgentWorker) -> None:
        if worker.rank not in self._workers:
            return
        raw = os.read(worker.signals, 64)
        if not raw:
            self._selector.unregister(worker.signals)
            return
        worker.times_asked += len(raw)
        self._link.send(agent_link.InterruptRequested(worker.rank, worker.times_asked))

    def _pass_line(self, rank: int, is_error: bool, text: str) -> None:
        self._link.send(agent_link.WorkerOutput(rank, text, is_error))

    def _copy(self, output: Output) -> None:
        if not output.is_closed and not output.read():
            self._selector.unregister(output.fileno())
            output.close()

    def _reap(self, rank: int) -> None:
        """A worker's process has ended: relay what is left in its channel and output pipes, then send
        `WorkerExited`."""
        worker = self._workers.get(rank)
        if worker is None:
            return
        self._hear(worker)
        if rank not in self._workers:  # its last message was `Leaving`
            return
        for output in worker.outputs:
            while not output.is_closed and _has_come(output.fileno()):
                self._copy(output)
        self._let_go(worker)

    def _let_go(self, worker: AgentWorker) -> None:
        """Stop watching a worker, and tell the controller that it is gone."""
        watched = [
            worker.pidfd,
            worker.signals,
            *(output.fileno() for output in worker.outputs if not output.is_closed),
        ]
        if worker.channel is not None and not worker.channel.is_closed:
            watched.append(worker.channel.fileno())
        for descriptor in watched:
            with suppress(KeyError, ValueError):  # some are not watched any more, or never were
                self._selector.unregister(descriptor)
        if worker not in self._leaving:
            worker.close()
        del self._workers[worker.rank]
        self._link.send(agent_link.WorkerExited(worker.rank))

    def _hear_controller(self, message: Relayed) -> None:
        if isinstance(message, agent_link.Tell):
            if (worker := self._workers.get(message.rank)) is not None:
                worker.say(message.message)
        elif isinstance(message, agent_link.ControllerHeartbeat):
            self._patience_s = message.patience_s
        elif isinstance(message, agent_link.Values):
            add_piece(self._initial, message.start, message.piece)
        elif isinstance(message, agent_link.Kill):
            self._kill()
        elif isinstance(message, agent_link.RunFailed):
            self._because = message.text

    def _kill(self) -> None:
        """Kill all workers; those that never connected only if /proc/PID/environ confirms their rank."""
        placed = self._orders.placed
        for worker in list(self._workers.values()):
            worker.kill(is_known=placed is not None and rank_in(placed, worker.pid) == worker.rank)
            if worker.channel is None:
                self._let_go(worker)

    def _lose_controller(self, why: str) -> None:
        """The controller is gone: close all channels, which ends the workers; after ORPHANS_END_S they are killed."""
        if not self._workers:
            return
        self._because = self._because or f"weft: the run's controller is gone: {why}. All workers of this host end."
        self._orphaned_s = time.monotonic() + timeouts.ORPHANS_END_S
        for worker in self._workers.values():
            if worker.channel is not None and not worker.channel.is_closed:
                self._selector.unregister(worker.channel.fileno())
                worker.channel.close()


def _has_come(pipe: int) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        return bool(selector.select(0))


def main() -> None:
    """Read the orders from standard input, and serve as host agent."""
    for number in (signal.SIGINT, signal.SIGTERM):  # workers get these, too; the agent ends after its workers
        signal.signal(number, signal.SIG_IGN)
    try:
        orders = msgspec.json.decode(sys.stdin.buffer.read(), type=AgentOrders)
        with closing(HostAgent(orders)) as agent:
            agent.run()
    except (WeftError, OSError, msgspec.DecodeError) as error:
        print(f"weft: the host agent ends: {error}", file=sys.stderr, flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
