"""Cores of hosts: workers that compute at the same time share them evenly."""

from collections.abc import Callable, Sequence
from typing import Any

from weft.sim.kernel import Kernel

Done = Callable[..., None]


class HostCores:
    """The cores of one host, and what runs on them: by worker, how many nanoseconds of a core are left."""

    __slots__ = ("generation", "num_cores", "running", "since_ns")

    def __init__(self, num_cores: int) -> None:
        self.num_cores = num_cores
        self.running: dict[int, tuple[float, Done, tuple[Any, ...]]] = {}
        self.since_ns = 0
        """When what is left was counted last."""
        self.generation = 0
        """Of the plan when the next one will be done: a change makes another one."""

    @property
    def rate(self) -> float:
        """How much of a core each worker has."""
        return min(1.0, self.num_cores / len(self.running)) if self.running else 1.0

    def count(self, now_ns: int) -> None:
        """Take what was done since the last count from what is left."""
        done = (now_ns - self.since_ns) * self.rate
        self.since_ns = now_ns
        self.running = {worker: (left - done, *rest) for worker, (left, *rest) in self.running.items()}  # type: ignore[misc]


class Cores:
    """Runs work of workers on the cores of their hosts, in virtual time."""

    def __init__(self, kernel: Kernel, hosts: Sequence[int], num_cores: int) -> None:
        self._kernel = kernel
        self._hosts = {number: HostCores(num_cores) for number in set(hosts)}
        self._host_of = hosts

    def run(self, worker: int, work_ns: float, done: Done, args: tuple[Any, ...]) -> None:
        """Call done(*args) when a worker has had so many nanoseconds of a core."""
        host = self._hosts[self._host_of[worker]]
        host.count(self._kernel.now_ns)
        host.running[worker] = (work_ns, done, args)
        self._plan(host)

    def drop(self, worker: int) -> None:
        """A worker's process is dead: what it ran is never done, and the others have more of a core."""
        host = self._hosts[self._host_of[worker]]
        host.count(self._kernel.now_ns)
        if host.running.pop(worker, None) is not None:
            self._plan(host)

    def _plan(self, host: HostCores) -> None:
        host.generation += 1
        if host.running:
            least = min(left for left, _, _ in host.running.values())
            due_ns = self._kernel.now_ns + max(0, round(least / host.rate))
            self._kernel.at(due_ns, self._finish, (host, host.generation))

    def _finish(self, host: HostCores, generation: int) -> None:
        """Those that are through by now go on; the others have more of a core from now on."""
        if generation != host.generation:
            return
        host.count(self._kernel.now_ns)
        through = [worker for worker, (left, _, _) in host.running.items() if left < 1.0]
        finished = [host.running.pop(worker) for worker in through]
        self._plan(host)
        for _, done, args in finished:
            done(*args)
