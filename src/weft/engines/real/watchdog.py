"""The watchdog: finds workers that are stopped or silent, and runs in which every worker waits (deadlock)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from statistics import median
from typing import NamedTuple

from weft.core.errors import Deadlock, NodeLost, WeftError
from weft.engines.real import timeouts
from weft.engines.real.stopped_processes import Stops
from weft.observe.records.status import Status


@dataclass
class LastHeard:
    """A worker's last status, when it came, and when it last showed progress."""

    status: Status
    heard_s: float
    changed_s: float
    step_s: float = 0.0
    """Seconds per step, from the last two statuses."""


class StuckWorker(NamedTuple):
    """A worker that is stopped or silent."""

    rank: int
    cause: str
    text: str
    """The error that ends the run, if it ends with this worker."""


class Watchdog:
    """`hear` takes every status; `check`, called in the supervisor's loop, returns an error that ends the run."""

    def __init__(
        self,
        num_workers: int,
        patience_s: float = 0.0,
        name: Callable[[int], str] = "worker {}".format,
        moment: Callable[[int], str] = lambda rank: "in its script",
    ) -> None:
        """`patience_s` is added to ALL_WAIT_S where the network is slow.

        For messages, `name` and `moment` turn a rank into the worker's name and where its script is.
        """
        self._num_workers = num_workers
        self._patience_s = patience_s
        self._carried_s = -inf
        """When the emulated network last delivered packets; -inf without one."""
        self._seen: dict[int, LastHeard] = {}
        self._lost: set[int] = set()
        self._coming: set[int] = set()
        """Those of them in whose place a newcomer's process is started, and has not come in yet."""
        self._held_s = -inf
        """When workers last waited because the engine had asked them to."""
        self._stops = Stops[int]()
        self._name = name
        self._moment = moment
        self._num_gone = 0
        self._gone_s = -inf
        """When a script last ended or a worker was lost: those that wait for it are stuck from then on, not before."""

    def hear(self, status: Status, now_s: float) -> None:
        """Take a worker's status."""
        if status.rank in self._lost:
            return
        before = self._seen.get(status.rank)
        if before is None:
            self._seen[status.rank] = LastHeard(status, now_s, now_s)
            return
        steps = status.step - before.status.step
        if steps:
            before.step_s = (now_s - before.heard_s) / steps
        if steps or _carried(status) != _carried(before.status) or not status.is_waiting:
            before.changed_s = now_s
        before.status, before.heard_s = status, now_s

    def lose(self, rank: int) -> None:
        """The run goes on without worker `rank`: its silence is no error, and it is not waited for."""
        self._seen.pop(rank, None)
        self._coming.discard(rank)
        self._lost.add(rank)

    def expect(self, rank: int) -> None:
        """A newcomer's process is started in the place of worker `rank`: it may be stopped before it comes in."""
        self._coming.add(rank)

    def welcome(self, rank: int) -> None:
        """A newcomer takes the place of worker `rank`, which was lost."""
        self._coming.discard(rank)
        self._lost.discard(rank)
        self._num_gone -= 1

    def hear_network(self, now_s: float) -> None:
        """Note that the emulated network has delivered packets: while it does, the run counts as alive."""
        self._carried_s = now_s

    def hold(self, now_s: float) -> None:
        """Note that workers wait because the engine has asked them to: for newcomers, or for a checkpoint."""
        self._held_s = now_s

    def check(self, now_s: float, ended: Mapping[int, object], states: Mapping[int, str]) -> WeftError | None:
        """The error that ends the run, or None; `states` are the states of living processes in /proc, by rank."""
        if len(ended) + len(self._lost) > self._num_gone:
            self._num_gone, self._gone_s = len(ended) + len(self._lost), now_s
        stuck = self.stuck(now_s, ended, states)
        if stuck is not None:
            return NodeLost(stuck.text)
        running = self._running(ended)
        if len(self._seen) + len(self._lost) < self._num_workers or not running:
            return None
        moved_s = now_s - timeouts.ALL_WAIT_S - self._patience_s
        if max(self._carried_s, self._gone_s, self._held_s) >= moved_s:
            return None
        # a worker that was silent meanwhile may be computing: importing a library may hold the GIL for long
        if all(seen.status.is_waiting and seen.changed_s < moved_s <= seen.heard_s for seen in running.values()):
            return Deadlock(self._all_wait(running, ended))
        return None

    def stuck(self, now_s: float, ended: Mapping[int, object], states: Mapping[int, str]) -> StuckWorker | None:
        """A worker whose process is stopped, or has said nothing for too long, by the steps that it makes; or None."""
        running = self._running(ended)
        step_s = median([seen.step_s for seen in running.values()] or [0.0])
        living = {rank: state for rank, state in states.items() if rank not in self._lost - self._coming}
        for rank, stopped_s in self._stops.see(living, now_s).items():
            if stopped_s > max(timeouts.PROCESS_STOPPED_S, timeouts.PROCESS_STOPPED_STEPS * step_s):
                return StuckWorker(
                    rank,
                    f"its process was stopped for {stopped_s:.1f} s",
                    f"{self._name(rank)} stopped answering {self._moment(rank)}: its process is stopped.\n"
                    "  Let it go on with kill -CONT, or find out who stopped it.",
                )
        for rank, seen in running.items():
            silence_s = now_s - seen.heard_s
            if silence_s > max(timeouts.WORKER_SILENT_S, timeouts.WORKER_SILENT_STEPS * step_s):
                return StuckWorker(
                    rank,
                    f"it said nothing for {silence_s:.0f} s",
                    f"{self._name(rank)} has said nothing for {silence_s:.0f} s at step {seen.status.step}: it hangs.\n"
                    "  Look at its stack with py-spy dump.",
                )
        return None

    def _running(self, ended: Mapping[int, object]) -> dict[int, LastHeard]:
        return {rank: seen for rank, seen in self._seen.items() if rank not in ended}

    def _all_wait(self, running: Mapping[int, LastHeard], ended: Mapping[int, object]) -> str:
        lines = ["nothing can happen any more: every worker that has not ended waits."]
        for rank, seen in running.items():
            lines.append(f"  {self._name(rank)}, at step {seen.status.step}, {seen.status.doing}")
        if ended:
            lines.append(f"  ended: {', '.join(map(self._name, sorted(ended)))}")
        lines.append("  Let every worker make the same number of steps, e.g. with worker.share(...).")
        return "\n".join(lines)


def _carried(status: Status) -> tuple[int, int]:
    """Bytes that a worker has sent and received; they grow even while one large tensor is under way."""
    return status.bytes_sent, sum(link.bytes_received for link in status.links)
