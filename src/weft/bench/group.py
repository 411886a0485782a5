"""A contender's processes while they run: started together, told to run blocks, always ended."""

import os
import select
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import IO

from weft.bench.contender import BenchmarkContender, process
from weft.bench.serving import Task
from weft.core.errors import NodeLost
from weft.engines.real.worker_env import worker_env
from weft.parent_death import bound_to_this_process
from weft.runtime.channel import peer_of

START_S_MAX = 120.0
BLOCK_S_MAX = 120.0
LEAVE_S_MAX = 5.0
"""How long processes may take to start, to run a block, and to leave once nobody needs them."""

LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo"}
POLL_S = 0.1
LINES_SHOWN = 15


@dataclass(frozen=True)
class GroupProcess:
    """One process that is ready: the stream to it, and a handle that can only ever mean this process."""

    stream: socket.socket
    lines: IO[str]
    pidfd: int

    def leave(self) -> None:
        """Let it go; the end of its stream tells it."""
        self.lines.close()
        self.stream.close()

    def end(self) -> None:
        """Make sure that it is gone."""
        if not select.select([self.pidfd], [], [], 0)[0]:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        os.close(self.pidfd)


class Group:
    """All processes of one contender. `with` starts them; leaving it ends them, whatever happened."""

    def __init__(self, contender: BenchmarkContender, work: str, num_processes: int) -> None:
        self.contender = contender
        self.num_processes = 1 if contender.is_alone else num_processes
        self._task = Task("", contender.name, work, self.num_processes)
        self._started: list[subprocess.Popen[bytes]] = []
        self._members: list[GroupProcess] = []
        self._closing = ExitStack()
        self._is_done = False

    def __enter__(self) -> "Group":
        with ExitStack() as stack:
            self._output = stack.enter_context(tempfile.TemporaryFile())
            self._listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            stack.callback(self._end)
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="weft-bench-"))
            self._task = replace(self._task, address=os.path.join(folder, "socket"))
            self._listener.bind(self._task.address)
            self._listener.listen(self.num_processes)
            self._listener.settimeout(POLL_S)
            self._start()
            self._closing = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_done = kind is None
        self._closing.close()

    def meet(self) -> None:
        """Wait until every process is ready."""
        deadline = time.monotonic() + START_S_MAX
        while len(self._members) < self.num_processes:
            if any(one.poll() is not None for one in self._started):
                raise self._lost("ended before it was ready")
            if time.monotonic() > deadline:
                raise self._lost(f"was not ready after {START_S_MAX:.0f} s")
            with suppress(TimeoutError):
                self._welcome(self._listener.accept()[0])

    def block(self, repeats: int) -> float:
        """Seconds of one repetition, by the slowest process. All start at once: the order is the barrier."""
        deadline = time.monotonic() + BLOCK_S_MAX
        try:
            for member in self._members:
                member.stream.sendall(b"block %d\n" % repeats)
            return max(float(self._answer(member, deadline)) for member in self._members)
        except TimeoutError:
            raise self._lost(f"did not finish a block of {repeats} in {BLOCK_S_MAX:.0f} s") from None
        except (OSError, EOFError):
            raise self._lost("ended during a block") from None

    def _start(self) -> None:
        module, launcher = self.contender.module, self.contender.launcher
        if launcher is not None:
            self._spawn(launcher(module, self.num_processes, self._task.text()))
            return
        with socket.create_server(("127.0.0.1", 0)) as store:
            task = replace(self._task, store_port=store.getsockname()[1], store_fd=store.fileno())
            for rank in range(self.num_processes):
                inherited = (store.fileno(),) if rank == 0 else ()
                self._spawn(process(module, replace(task, rank=rank).text()), inherited)

    def _spawn(self, command: list[str], inherited: tuple[int, ...] = ()) -> None:
        # a session of its own: Ctrl-C reaches the benchmark alone, which then ends its processes in order
        self._started.append(
            subprocess.Popen(
                bound_to_this_process(command),
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                env={**worker_env(os.environ, 1, keeps_memory=self.contender.keeps_memory), **LOOPBACK},
                pass_fds=inherited,
                start_new_session=True,
            )
        )

    def _welcome(self, stream: socket.socket) -> None:
        pid, uid = peer_of(stream)
        if uid == os.getuid():
            self._members.append(GroupProcess(stream, stream.makefile("r"), os.pidfd_open(pid)))
        else:
            stream.close()

    def _answer(self, member: GroupProcess, deadline: float) -> str:
        member.stream.settimeout(max(deadline - time.monotonic(), POLL_S))
        line = member.lines.readline()
        if not line:
            raise EOFError
        return line

    def _lost(self, what: str) -> NodeLost:
        # the last words of a process that has just closed its stream may still be on their way
        with suppress(subprocess.TimeoutExpired):
            for one in self._started:
                one.wait(POLL_S)
        self._output.seek(0)
        said = self._output.read().decode(errors="replace").splitlines()[-LINES_SHOWN:]
        words = "\n".join(f"  {line}" for line in said) or "  It said nothing."
        return NodeLost(f"contender '{self.contender.name}' {what}. Its last words:\n{words}")

    def _end(self) -> None:
        for member in self._members:
            member.leave()
        if self._is_done:
            self._await_all()
        for signalled in (signal.SIGTERM, signal.SIGKILL):
            for one in self._started:
                if one.poll() is None:
                    one.send_signal(signalled)
            self._await_all()
        for member in self._members:
            member.end()

    def _await_all(self) -> None:
        deadline = time.monotonic() + LEAVE_S_MAX
        for one in self._started:
            with suppress(subprocess.TimeoutExpired):
                one.wait(max(deadline - time.monotonic(), POLL_S))
