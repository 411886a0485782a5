"""The outcome of a real run: what the table shows and what --json writes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import to_builtins

from weft.engines.outcome_json import coding_json, finite, histogram, timeline_json
from weft.engines.real.losses import WorkerLoss
from weft.observe.records.status import Status, in_all
from weft.observe.records.stragglers import Blame
from weft.observe.records.tracks import Tracks
from weft.runtime.connections import TORCH

POINTS_MAX = 200
UNKNOWN_OF_BASELINES = ("bytes_sent", "copies", "refused", "staleness_mean", "staleness_max", "staleness_histogram")
NOT_REPORTED = ("epoch", "wall_s", "consensus")
"""Keys of a report that Weft adds to the numbers that the script reported."""


@dataclass(kw_only=True)
class RealOutcome:
    """One run. `workers` are the workers' last statuses; `curve` and `reports` were collected while it ran."""

    strategy: str
    transport: str
    seed: int
    wall_s: float
    workers: list[Status]
    pids: list[int]
    reports: list[dict[str, float | None]]
    curve: list[dict[str, float | None]]
    consensus: float | None
    replay: list[str]
    """Where peers answered the recorded events differently; empty when the run can be replayed."""
    is_measured: bool = True
    """False for a baseline: bytes, copies and staleness inside torch's DDP are not known."""
    was_stopped: bool = False
    """The run was asked by a signal (Ctrl-C) to end early."""
    network: dict[str, Any] | None = None
    """The emulated network (`--net`) of the run, and what it carried."""
    ages: Mapping[int, int] = field(default_factory=dict)
    """Histogram of staleness: number of updates by their age in whole steps."""
    tracks: Tracks | None = None
    """What the workers did and sent, if the run was traced."""
    blamed: list[Blame] = field(default_factory=list)
    """Workers that were found to be slow, and why."""
    hosts: tuple[int, ...] = ()
    """The number of each worker's host; empty: all were on one."""
    saved: list[str] = field(default_factory=list)
    """The paths to which the script saved models of all workers, as it named them."""
    losses: list[WorkerLoss] = field(default_factory=list)
    """Workers that were lost while the others went on."""
    lost: list[Status] = field(default_factory=list)
    """What lost workers told last: what they did after that is not known."""
    num_unused: int = 0
    """Samples of lost workers that nobody used, because all others had ended that epoch."""
    not_saved: list[str] = field(default_factory=list)
    """Messages about models that could not be written or brought back, and why."""

    def to_json(self) -> dict[str, Any]:
        """Plain data, with the names that `weft simulate` uses; None for numbers that are not finite."""
        everybody = [*self.workers, *self.lost]
        samples = sum(status.samples for status in everybody)
        told = {
            "strategy": self.strategy,
            "workers": len(self.workers),
            "seed": self.seed,
            "trace": None,
            "transport": self.transport,
            "hosts": len(set(self.hosts)) or 1,
            "network": self.network,
            "virtual_s": None,
            "wall_s": self.wall_s,
            "steps": max(status.step for status in self.workers),
            "samples": samples,
            "samples_per_s": samples / self.wall_s if self.wall_s else 0.0,
            "bytes_sent": sum(status.bytes_sent for status in everybody),
            "bytes_between_hosts": self._bytes_between_hosts(),
            "copies": sum(status.num_copies for status in self.workers),
            "refused": sum(status.refused for status in self.workers),
            "staleness_mean": sum(status.staleness_mean for status in self.workers) / len(self.workers),
            "staleness_max": max(status.staleness_max for status in self.workers),
            "staleness_histogram": histogram(self.ages),
            "coding": coding_json(in_all(status.coding for status in self.workers if status.coding is not None)),
            "not_finite": self._not_finite(),
            "consensus": self.consensus,
            "waiting_fraction": self._fraction(sum(status.waiting_s for status in self.workers)) / len(self.workers),
            "final": self._final(),
            "curve": self._thinned(),
            "reports": self.reports,
            "not_saved": self.not_saved,
            "losses": [to_builtins(loss) for loss in self.losses],
            "samples_unused": self.num_unused,
            "blame": [str(blame) for blame in self.blamed],
            "blamed": [to_builtins(blame) for blame in self.blamed],
            "per_worker": [self._row(*each) for each in zip(self.workers, self.pids, strict=True)],
            "timeline": timeline_json(self.tracks),
        }
        if not self.is_measured:
            told.update(dict.fromkeys(UNKNOWN_OF_BASELINES))
        return {name: finite(value) for name, value in told.items()}

    def _not_finite(self) -> list[int]:
        """By rank: the steps whose gradient was left out, those of lost workers, too."""
        everybody = [*self.workers, *self.lost]
        num_steps = [0] * (max(status.rank for status in everybody) + 1)
        for status in everybody:
            num_steps[status.rank] += 0 if status.left_out is None else status.left_out.num_steps
        return num_steps

    def _row(self, status: Status, pid: int) -> dict[str, Any]:
        return {
            "rank": status.rank,
            "pid": pid,
            "seconds": status.time_s,
            "steps": status.step,
            "samples": status.samples,
            "samples_per_s": status.samples / status.time_s if status.time_s else 0.0,
            "computing_fraction": self._fraction(status.compute_s),
            "reading_fraction": self._fraction(status.input_s),
            "waiting_fraction": self._fraction(status.waiting_s),
            "paused_fraction": self._fraction(status.paused_s),
            "staleness_mean": status.staleness_mean,
            "staleness_max": status.staleness_max,
            "bytes_sent": status.bytes_sent,
            "copies": status.num_copies,
            "coding": coding_json(status.coding),
            "device": None if status.device is None else to_builtins(status.device),
        }

    def _bytes_between_hosts(self) -> int | None:
        """Bytes sent over sockets between hosts, with headers; None on one host, and where torch.distributed sends."""
        if not self.hosts or self.transport == TORCH:
            return None
        links = [(self.hosts[status.rank], link) for status in self.workers for link in status.links]
        return sum(link.num_bytes for host, link in links if self.hosts[link.peer] != host)

    def _fraction(self, duration_s: float) -> float:
        return duration_s / self.wall_s if self.wall_s else 0.0

    def _final(self) -> dict[str, float | None]:
        losses = [status.loss for status in self.workers if status.loss is not None]
        final: dict[str, float | None] = {"loss": sum(losses) / len(losses)} if losses else {}
        for report in self.reports:
            final.update({name: value for name, value in report.items() if name not in NOT_REPORTED})
        return final

    def _thinned(self) -> list[dict[str, float | None]]:
        stride = max(1, -(-len(self.curve) // POINTS_MAX))
        return self.curve[::stride]
