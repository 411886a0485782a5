"""Keeps watch over a run: workers that fall silent, and runs in which nothing can happen any more."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from statistics import median

from weft.core.errors import Deadlock, NodeLost, WeftError
from weft.engines.real.stopped_processes import STOPPED_S, Stops
from weft.observe.records.status import Status

STOPPED_STEPS = 5
"""A process that the system has stopped is given up after `STOPPED_S`, and so many median steps."""
SILENT_S = 30.0
SILENT_STEPS = 20
"""One that runs but says nothing is given more: a library may hold the interpreter for long."""
STUCK_S = 3.0
"""So long nothing at all may happen while everybody waits."""


@dataclass
class LastHeard:
    """The last that was heard of a worker."""

    status: Status
    heard_s: float
    changed_s: float
    step_s: float = 0.0
    """How long a step takes, by its last two statuses."""


class Watchdog:
    """Told of every status; asked now and then whether the run can still go on."""

    def __init__(
        self,
        num_workers: int,
        patience_s: float = 0.0,
        name: Callable[[int], str] = "worker {}".format,
        moment: Callable[[int], str] = lambda rank: "in its script",
    ) -> None:
        """`patience_s` is how much longer than usual nothing at all may happen, because the network is slow.

        `name` says of which worker, host and process people shall read, and `moment` where its script is.
        """
        self._num_workers = num_workers
        self._patience_s = patience_s
        self._carried_s = -inf
        """When the network last carried something, if it is one that tells."""
        self._seen: dict[int, LastHeard] = {}
        self._stops = Stops[int]()
        self._name = name
        self._moment = moment
        self._num_ended = 0
        self._ended_s = -inf
        """When the last script ended: only then it was known that nothing more would come of it."""

    def hear(self, status: Status, now_s: float) -> None:
        """A worker has said how it does."""
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

    def hear_network(self, now_s: float) -> None:
        """Packets have come out of the network: somebody gets what it waits for, however slowly."""
        self._carried_s = now_s

    def check(self, now_s: float, ended: Mapping[int, object], states: Mapping[int, str]) -> WeftError | None:
        """What ends the run, if anything; `states` are what the system says of every process that lives."""
        if len(ended) > self._num_ended:
            self._num_ended, self._ended_s = len(ended), now_s
        running = {rank: seen for rank, seen in self._seen.items() if rank not in ended}
        step_s = median([seen.step_s for seen in running.values()] or [0.0])
        for rank, stopped_s in self._stops.see(states, now_s).items():
            if stopped_s > max(STOPPED_S, STOPPED_STEPS * step_s):
                return NodeLost(
                    f"{self._name(rank)} stopped answering {self._moment(rank)}: its process is stopped.\n"
                    "  Let it go on with kill -CONT, or find out who stopped it."
                )
        for rank, seen in running.items():
            silence_s = now_s - seen.heard_s
            if silence_s > max(SILENT_S, SILENT_STEPS * step_s):
                return NodeLost(
                    f"{self._name(rank)} has said nothing for {silence_s:.0f} s at step {seen.status.step}: it hangs.\n"
                    "  Look at its stack with py-spy dump."
                )
        if len(self._seen) < self._num_workers or not running:
            return None
        moved_s = now_s - STUCK_S - self._patience_s
        if max(self._carried_s, self._ended_s) >= moved_s:
            return None
        # whoever is silent may do anything: a library that is imported may hold the interpreter for long
        if all(seen.status.is_waiting and seen.changed_s < moved_s <= seen.heard_s for seen in running.values()):
            return Deadlock(self._stuck(running, ended))
        return None

    def _stuck(self, running: Mapping[int, LastHeard], ended: Mapping[int, object]) -> str:
        lines = ["nothing can happen any more: every worker that has not ended waits."]
        for rank, seen in running.items():
            lines.append(f"  {self._name(rank)}, at step {seen.status.step}, {seen.status.doing}")
        if ended:
            lines.append(f"  ended: {', '.join(map(self._name, sorted(ended)))}")
        lines.append("  Let every worker make the same number of steps, e.g. with worker.share(...).")
        return "\n".join(lines)


def _carried(status: Status) -> tuple[int, int]:
    """What a worker has sent, and what has come for it: of a large tensor, also a part."""
    return status.bytes_sent, sum(link.bytes_received for link in status.links)
