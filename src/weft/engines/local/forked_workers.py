"""The launcher's side of the fork server: orders workers, becomes their parent as subreaper, and reaps them."""

import ctypes
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from weft.core.errors import NodeLost
from weft.engines.local.fork_server import OWN_FDS, Forked, ForkOrder, heavy_imports
from weft.engines.real import timeouts
from weft.engines.real.child_processes import start
from weft.engines.real.exit_status import how_it_ended
from weft.engines.real.fd_passing import send_fds
from weft.engines.real.stopped_processes import Stops, children_of, process_state
from weft.engines.real.worker_record import WorkerRecord
from weft.interpreter import python_module
from weft.runtime.channel import Channel

PR_SET_CHILD_SUBREAPER = 36
LOOK_S = 0.5
"""How often the states of fork server and workers are read from /proc while workers are awaited."""
FORKED_BYTES_MAX = 1 << 10
MORE_PROCESSES = (
    "If there are too many processes, use fewer workers (-n), or raise the limit: pids.max of the container's cgroup "
    "(docker run --pids-limit), or ulimit -u."
)


class Process:
    """A worker process: watched and signalled by its pidfd, and reaped by waitpid."""

    def __init__(self, pid: int, channel: socket.socket, output: int, error: int) -> None:
        self.pid = pid
        self.channel = channel
        self.output = output
        self.error = error
        self.pidfd = os.pidfd_open(pid)
        self.exit_code: int | None = None

    def kill(self) -> None:
        signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def wait(self) -> None:
        """Reap the process and keep its exit code."""
        _, status = os.waitpid(self.pid, 0)
        self.exit_code = os.waitstatus_to_exitcode(status)
        os.close(self.pidfd)


class LocalWorker(WorkerRecord):
    """A worker that is a child of the launcher: its process and its channel."""

    def __init__(self, rank: int, process: Process) -> None:
        super().__init__(rank, socket.gethostname(), process.pid)
        self.process = process
        self.channel = Channel(process.channel)


class ForkServer:
    """The fork server's process, which forks workers of one script for any number of runs; a context manager."""

    def __init__(self, script: Path, environment: Mapping[str, str], modules: Sequence[str] = ()) -> None:
        imports = [*heavy_imports(script), *modules]
        self._order = 0
        self._end, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._end.settimeout(0.1)
        with theirs:
            try:
                self._process = start(
                    "the fork server",
                    python_module("weft.engines.local.fork_server", [str(theirs.fileno()), str(os.getpid()), *imports]),
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    env=dict(environment),
                    start_new_session=True,
                )
            except OSError as error:
                self._end.close()
                raise NodeLost(
                    f"the workers could not be started: the kernel started no process for their fork server "
                    f"({error.strerror}).\n  {MORE_PROCESSES}"
                ) from error
        adopt_orphans(True)

    def __enter__(self) -> "ForkServer":
        return self

    def __exit__(self, *error: object) -> None:
        forked = self._halt()
        self._process.kill()
        self._process.wait()
        for pid in forked:  # adopted by this process; one that was stopped while it was forked would never end
            end(pid)
        self._end.setblocking(False)
        with suppress(OSError):  # empty, or the fork server has hung up
            while raw := self._end.recv(FORKED_BYTES_MAX):
                self._end_late(msgspec.json.decode(raw, type=Forked))
        self._end.close()
        adopt_orphans(False)

    def _halt(self) -> list[int]:
        """SIGSTOP the fork server, so that it forks no more; returns its children and their children."""
        self._process.send_signal(signal.SIGSTOP)
        with suppress(ChildProcessError):  # it has ended and was reaped
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        children = children_of(self._process.pid)
        return [*children, *(pid for child in children for pid in children_of(child))]

    def fork(self, num_workers: int, shared: Sequence[int], check: Callable[[], None]) -> list[Process]:
        """Fork `num_workers` workers that inherit the `shared` descriptors; `check` is called while they are awaited.

        If one cannot be forked, kills and reaps those that were, and raises NodeLost.
        """
        channels = [socket.socketpair() for _ in range(num_workers)]
        pipes = [(os.pipe(), os.pipe()) for _ in range(num_workers)]
        own = [
            fd
            for (_, channel), (output, error) in zip(channels, pipes, strict=True)
            for fd in (channel.fileno(), output[1], error[1])
        ]
        assert len(own) == OWN_FDS * num_workers
        pids: dict[int, int] = {}
        self._order += 1
        try:
            order = ForkOrder(number=self._order, num_workers=num_workers)
            with suppress(OSError):  # a fork server that is gone says so below
                send_fds(self._end, msgspec.json.encode(order), [*shared, *own])
            self._await(pids, num_workers, check)
        except BaseException:  # a worker that was forked but not reported yet ends because its channel is closed
            for channel, _ in channels:
                channel.close()
            for output, error in pipes:
                os.close(output[0])
                os.close(error[0])
            for pid in pids.values():
                end(pid)
            raise
        finally:
            for _, channel in channels:
                channel.close()
            for output, error in pipes:
                os.close(output[1])
                os.close(error[1])
        return [
            Process(pids[rank], channel, output[0], error[0])
            for rank, ((channel, _), (output, error)) in enumerate(zip(channels, pipes, strict=True))
        ]

    def _await(self, pids: dict[int, int], num_workers: int, check: Callable[[], None]) -> None:
        """Collect the pids that the fork server reports into `pids`, by rank, until there are `num_workers`."""
        stops, looked_s = Stops[str](), time.monotonic()
        while len(pids) < num_workers:
            check()
            if time.monotonic() - looked_s > LOOK_S:
                looked_s = time.monotonic()
                self._check_stopped(stops, pids)
            try:
                raw = self._end.recv(FORKED_BYTES_MAX)
            except TimeoutError:
                if self._process.poll() is None:
                    continue
                raw = b""
            except OSError:
                raw = b""
            if not raw:
                how = how_it_ended(self._process.wait())
                raise NodeLost(
                    f"worker {len(pids)} could not be started: the fork server "
                    f"(pid {self._process.pid}): {how}.\n  If nobody killed it, what it printed may say why."
                )
            forked = msgspec.json.decode(raw, type=Forked)
            if forked.order != self._order:
                self._end_late(forked)
            elif forked.problem:
                raise NodeLost(f"worker {forked.rank} could not be started: {forked.problem}.\n  {MORE_PROCESSES}")
            else:
                pids[forked.rank] = forked.pid

    def _end_late(self, forked: Forked) -> None:
        """Kill a worker that was reported after its order was given up."""
        if forked.pid:
            end(forked.pid)

    def _check_stopped(self, stops: Stops[str], pids: Mapping[int, int]) -> None:
        """Raise NodeLost if the fork server, a process that it forks, or a worker is stopped for PROCESS_STOPPED_S."""
        fork_server = self._process.pid
        who = {f"the fork server (pid {fork_server})": fork_server}
        who |= {f"a process that the fork server has forked (pid {pid})": pid for pid in children_of(fork_server)}
        who |= {f"worker {rank} (pid {pid})": pid for rank, pid in pids.items()}
        seen = stops.see({name: process_state(pid) for name, pid in who.items()}, time.monotonic())
        for name in (name for name, seconds in seen.items() if seconds > timeouts.PROCESS_STOPPED_S):
            raise NodeLost(
                f"{name} is stopped, and worker {len(pids)} is not forked yet.\n"
                f"  Let it go on with kill -CONT {who[name]}, or find out who stopped it."
            )


def end(pid: int) -> None:
    """Kill and reap a child of this process. Until it is reaped, its pid cannot be given to another process."""
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def adopt_orphans(enabled: bool) -> None:
    """Make this process the parent of orphaned descendants rather than init (PR_SET_CHILD_SUBREAPER), or no longer."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, int(enabled), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")
