"""How the launcher gets its workers: a nursery forks them, and the launcher adopts them."""

import ctypes
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from weft.core.errors import NodeLost
from weft.engines.nursery import OWN_FDS, Order, heavy_imports, send_fds
from weft.interpreter import python_module

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


class Nursery:
    """The process that forks workers of one script, for as many runs as are wanted; used inside `with`."""

    def __init__(self, script: Path, environment: Mapping[str, str], modules: Sequence[str] = ()) -> None:
        self._end, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._end.settimeout(0.1)
        adopt_orphans(True)
        with theirs:
            self._process = subprocess.Popen(
                python_module(
                    "weft.engines.nursery",
                    [str(theirs.fileno()), str(os.getpid()), *heavy_imports(script), *modules],
                ),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=dict(environment),
                start_new_session=True,
            )

    def __enter__(self) -> "Nursery":
        return self

    def __exit__(self, *error: object) -> None:
        self._end.close()
        self._process.kill()
        self._process.wait()
        adopt_orphans(False)

    def bear(self, num_workers: int, shared: Sequence[int], check: Callable[[], None]) -> list[Process]:
        """Workers that have the shared descriptors; `check` is called now and then while they are awaited."""
        channels = [socket.socketpair() for _ in range(num_workers)]
        pipes = [(os.pipe(), os.pipe()) for _ in range(num_workers)]
        own = [
            fd
            for (_, channel), (output, error) in zip(channels, pipes, strict=True)
            for fd in (channel.fileno(), output[1], error[1])
        ]
        assert len(own) == OWN_FDS * num_workers
        try:
            order = Order(num_workers, len(shared) + len(own))
            with suppress(OSError):  # a nursery that is gone says so below
                send_fds(self._end, msgspec.json.encode(order), [*shared, *own])
            pids = self._await(num_workers, check)
        except BaseException:  # whoever was born meanwhile ends when its channel does
            for channel, _ in channels:
                channel.close()
            for output, error in pipes:
                os.close(output[0])
                os.close(error[0])
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

    def _await(self, num_workers: int, check: Callable[[], None]) -> dict[int, int]:
        """The process ids that the workers tell, by rank."""
        pids: dict[int, int] = {}
        while len(pids) < num_workers:
            check()
            try:
                raw = self._end.recv(1 << 10)
            except TimeoutError:
                continue
            except OSError:
                raw = b""
            if not raw:
                code = self._process.wait()
                raise NodeLost(f"the workers could not be started: their nursery ended with code {code}.")
            rank, pid = msgspec.json.decode(raw, type=tuple[int, int])
            pids[rank] = pid
        return pids


def adopt_orphans(really: bool) -> None:
    """Let grandchildren whose parent ends become ours rather than the system's."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, int(really), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")
