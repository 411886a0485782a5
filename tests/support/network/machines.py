"""Network namespaces as hosts: each with a name and an address of its own, and a command in each, such as torchrun.

By hand, `PYTHONPATH=tests python -m support.network.machines 4 --net 100mbit,10ms -- COMMAND` runs a command in each of
four (root on Linux); it may say {rank} and {address}. `torchrun` in place of a command is completed by what makes the
hosts meet.
"""

import ctypes
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from support.network.namespaces import inside
from weft.config.network import EmulatedNetwork, read_network
from weft.engines.netem.namespaces import CLONE_NEWNET, DEVICE, MTU_BYTES, address, enter, own_namespace
from weft.engines.netem.network import SlowNetwork
from weft.parent_death import die_with_parent

CLONE_NEWUTS = 0x04000000
MEETING_PORT = 29400
PATIENCE_S = 60.0
BECOME = "become"
TESTS = Path(__file__).parents[2]
SRC = TESTS.parent / "src"

Show = Callable[[int, str], None]


class Running:
    """One command on each of some hosts; what they write is collected, by host."""

    def __init__(self, commands: Sequence["subprocess.Popen[bytes]"], mark: bytes, show: Show | None = None) -> None:
        self.processes = list(commands)
        self.out: list[list[str]] = [[] for _ in commands]
        self._mark = mark
        self._show = show
        self._changed = threading.Condition()
        self._readers = [threading.Thread(target=self._read, args=(host,)) for host in range(len(commands))]
        for reader in self._readers:
            reader.start()

    def _read(self, host: int) -> None:
        output = self.processes[host].stdout
        assert output is not None
        with output:
            for raw in output:
                line = raw.decode(errors="replace").rstrip("\n")
                with self._changed:
                    self.out[host].append(line)
                    self._changed.notify_all()
                if self._show is not None:
                    self._show(host, line)

    def text(self, host: int | None = None) -> str:
        """What one host, or all of them, wrote."""
        return "\n".join(line for lines in (self.out if host is None else [self.out[host]]) for line in lines)

    def until(self, text: str, times: int = 1, timeout_s: float = PATIENCE_S) -> None:
        """Wait until this text stands in so many lines of all that was written."""
        with self._changed:
            there = self._changed.wait_for(lambda: self._lines_with(text) >= times, timeout_s)
        assert there, f"waited {timeout_s} s for {times} lines with '{text}' in:\n{self.text()}"

    def _lines_with(self, text: str) -> int:
        return sum(text in line for lines in self.out for line in lines)

    def end(self, timeout_s: float = PATIENCE_S) -> list[int]:
        """Wait for the end of all; the exit code of each host's command."""
        deadline_s = time.monotonic() + timeout_s
        try:
            for process in self.processes:
                process.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            late = [host for host, process in enumerate(self.processes) if process.poll() is None]
            raise AssertionError(f"hosts {late} had not ended after {timeout_s} s:\n{self.text()}") from None
        for reader in self._readers:
            reader.join(max(0.0, deadline_s - time.monotonic()))
            assert not reader.is_alive(), f"somebody still holds the output:\n{self.text()}"
        return [process.returncode for process in self.processes]

    def living(self) -> set[int]:
        """These commands and all that they have started, as far as they live."""
        return {pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self._is_ours(pid)}

    def _is_ours(self, pid: int) -> bool:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            return state not in ("Z", "X") and self._mark in Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False

    def leftovers(self, within_s: float = 2.0) -> set[int]:
        """Those that still live so long after now."""
        deadline_s = time.monotonic() + within_s
        while (left := self.living()) and time.monotonic() < deadline_s:
            with self._changed:
                self._changed.wait(0.01)
        return left

    def kill(self) -> None:
        """End all that lives of it, whatever state it is in."""
        for _ in range(100):  # one that is being killed may have started another
            for pid in self.living():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not self.living():
                break
        for process in self.processes:
            process.wait()
        for reader in self._readers:
            reader.join()


class Machines:
    """Hosts that reach each other, at address(0), address(1) and so on."""

    def __init__(self, namespaces: Sequence[int], show: Show | None = None) -> None:
        self.namespaces = list(namespaces)
        self.addresses = [address(rank) for rank in range(len(namespaces))]
        self._show = show
        self._running: list[Running] = []

    def start(
        self,
        commands: Sequence[Sequence[object]],
        *,
        cwd: Path | None = None,
        hosts: Sequence[int] | None = None,
        **environment: str,
    ) -> Running:
        """A command on each host, or on each of some hosts."""
        mark = secrets.token_hex(8)
        everyone = {
            **os.environ,
            "PYTHONPATH": f"{SRC}{os.pathsep}{TESTS}",
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": DEVICE,
        }
        started = []
        for host, command in zip(hosts or range(len(commands)), commands, strict=True):
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "support.network.machines",
                    BECOME,
                    *map(str, (os.getpid(), self.namespaces[host], host, *command)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env={**everyone, **environment, "STARTED_BY_TEST": mark},
                start_new_session=True,
                pass_fds=[self.namespaces[host]],
            )
            started.append(process)
        self._running.append(Running(started, f"STARTED_BY_TEST={mark}".encode(), self._show))
        return self._running[-1]

    def torchrun(
        self, *what: object, workers_per_host: int = 1, cwd: Path | None = None, **environment: str
    ) -> Running:
        """torchrun on every host; `what` is a script or -m and a module, with arguments."""
        commands = [self.torchrun_command(host, workers_per_host, *what) for host in range(len(self.namespaces))]
        return self.start(commands, cwd=cwd, hosts=None, **environment)

    def torchrun_command(self, host: int, workers_per_host: int, *what: object) -> list[object]:
        """All that torchrun must be told where hosts cannot look each other's names up."""
        return [
            *(sys.executable, "-m", "torch.distributed.run"),
            *("--nnodes", len(self.namespaces), "--nproc-per-node", workers_per_host),
            *("--rdzv-backend", "c10d", "--rdzv-endpoint", f"{self.addresses[0]}:{MEETING_PORT}", "--rdzv-id", "test"),
            *("--rdzv-conf", f"is_host={int(host == 0)}", "--local-addr", self.addresses[host]),
            *what,
        ]

    def close(self) -> None:
        for running in self._running:
            running.kill()


def become(parent: int, namespace: int, host: int, command: Sequence[str]) -> None:
    """What a process does before it becomes its command: it dies with its parent, and is on its host, with its name."""
    die_with_parent(parent)
    enter(namespace)
    if ctypes.CDLL(None).unshare(CLONE_NEWUTS) == 0:
        socket.sethostname(f"host{host}")
    os.close(namespace)
    os.execvp(command[0], list(command))


@contextmanager
def machines(num_hosts: int, network: EmulatedNetwork | None = None, show: Show | None = None) -> Iterator[Machines]:
    """Hosts that are gone afterwards with all that runs there; their links are slow ones, or as fast as the kernel."""
    slow = None if network is None else SlowNetwork(network, num_hosts, seed=0)
    namespaces = fast_namespaces(num_hosts) if slow is None else slow.namespaces
    hosts = Machines(namespaces[:num_hosts], show)
    try:
        yield hosts
    finally:
        hosts.close()
        if slow is not None:
            slow.close()
        for namespace in namespaces:
            os.close(namespace)


def fast_namespaces(num_hosts: int) -> list[int]:
    """Namespaces on a bridge, which is in one more, the last; all are gone with their descriptors."""

    def new() -> int:
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "unshare failed: namespaces need root on Linux")
        return own_namespace()

    namespaces = [_in_a_thread(new) for _ in range(num_hosts + 1)]
    commands = ["link add bridge0 type bridge", "link set bridge0 up"]
    for host in range(num_hosts):
        commands += [
            f"link add port{host} mtu {MTU_BYTES} type veth peer name {DEVICE} mtu {MTU_BYTES} "
            f"netns /proc/{os.getpid()}/fd/{namespaces[host]}",
            f"link set port{host} master bridge0 up",
        ]
    inside(namespaces[-1], lambda: _ip(commands))
    for host in range(num_hosts):
        own = [f"address add {address(host)}/16 dev {DEVICE}", f"link set {DEVICE} up", "link set lo up"]
        inside(namespaces[host], partial(_ip, own))
    return namespaces


def _in_a_thread(do: Callable[[], int]) -> int:
    """What a function gives that changes the thread it is in for good."""
    made: list[int] = []
    thread = threading.Thread(target=lambda: made.append(do()))
    thread.start()
    thread.join()
    return made[0]


def _ip(commands: Sequence[str]) -> None:
    told = subprocess.run(["ip", "-batch", "-"], input="\n".join(commands), text=True, capture_output=True, check=False)
    assert told.returncode == 0, told.stderr


def main() -> None:
    """Run a command on hosts, by hand."""
    options, command = sys.argv[1 : sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1 :]
    network = read_network(options[2]) if options[1:2] == ["--net"] else None
    with machines(int(options[0]), network, lambda host, line: print(f"[{host}] {line}", flush=True)) as hosts:
        ranks = range(len(hosts.namespaces))
        if command[0] == "torchrun":
            commands = [hosts.torchrun_command(rank, 1, *command[1:]) for rank in ranks]
        else:
            commands = [[w.format(rank=rank, address=hosts.addresses[rank]) for w in command] for rank in ranks]
        print("exit codes:", hosts.start(commands).end(600.0))


if __name__ == "__main__":
    if sys.argv[1] == BECOME:
        parent, namespace, host = map(int, sys.argv[2:5])
        become(parent, namespace, host, sys.argv[5:])
    main()
