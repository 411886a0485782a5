"""How the launcher gets its workers: from a nursery, which it outlives, and whose children it adopts."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from weft.core.errors import NodeLost
from weft.engines.nursery import Cradle, Order, heavy_imports

PR_SET_CHILD_SUBREAPER = 36


class Process:
    """A worker process: ended by its own id, and waited for."""

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
        """Take note of how it ended."""
        _, status = os.waitpid(self.pid, 0)
        self.exit_code = os.waitstatus_to_exitcode(status)
        os.close(self.pidfd)


def bear(
    num_workers: int, script: Path, environment: dict[str, str], shared: Sequence[int], check: Callable[[], None]
) -> list[Process]:
    """Start worker processes that inherit the shared descriptors; `check` is called while they are awaited."""
    channels = [socket.socketpair() for _ in range(num_workers)]
    pipes = [(os.pipe(), os.pipe()) for _ in range(num_workers)]
    ours, theirs = socket.socketpair()
    cradles = [
        Cradle(channel.fileno(), output[1], error[1])
        for (_, channel), (output, error) in zip(channels, pipes, strict=True)
    ]
    inherited = [fd for cradle in cradles for fd in (cradle.channel, cradle.output, cradle.error)]
    _adopt_orphans(True)
    try:
        nursery = subprocess.Popen(
            [sys.executable, "-m", "weft.engines.nursery", str(theirs.fileno()), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno(), *inherited, *shared],
            env=environment,
            start_new_session=True,
        )
        theirs.close()
        for _, channel in channels:
            channel.close()
        for output, error in pipes:
            os.close(output[1])
            os.close(error[1])
        ours.sendall(msgspec.json.encode(Order(cradles, heavy_imports(script))))
        pids = _await(nursery, ours, check)
    finally:
        _adopt_orphans(False)
        ours.close()
    return [
        Process(pid, channel, output[0], error[0])
        for pid, (channel, _), (output, error) in zip(pids, channels, pipes, strict=True)
    ]


def _await(nursery: "subprocess.Popen[bytes]", end: socket.socket, check: Callable[[], None]) -> list[int]:
    """The process ids that the nursery tells, once it has ended."""
    end.settimeout(0.1)
    raw = b""
    try:
        while not raw.endswith(b"]"):
            check()
            try:
                piece = end.recv(1 << 16)
            except TimeoutError:
                continue
            if not piece:
                code = nursery.wait()
                raise NodeLost(f"the workers could not be started: their nursery ended with code {code}.")
            raw += piece
        nursery.wait()
    except BaseException:
        nursery.kill()
        nursery.wait()
        raise
    pids: list[int] = msgspec.json.decode(raw, type=list[int])
    return pids


def _adopt_orphans(really: bool) -> None:
    """Let children whose parent ends become ours rather than the system's."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, int(really), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")
