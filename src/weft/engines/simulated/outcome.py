"""The outcome of a simulated run: what the table shows and what --json writes."""

from dataclasses import asdict, dataclass, field
from typing import Any

from weft.engines.outcome_json import coding_json, finite, histogram, timeline_json
from weft.observe.records.status import CodingStatus
from weft.sim.facts import Facts
from weft.sim.faults.kills import SimulatedLoss


@dataclass
class Outcome:
    """One strategy's run. `arrays` is the result model, bucket by bucket; None for a dry run.

    For an ensemble, it has the buckets of one member after another.
    """

    strategy: str
    workers: int
    seed: int
    trace: str
    facts: Facts
    consensus: float | None = None
    arrays: list[Any] | None = None
    replicas: list[Any] = field(default_factory=list)
    coding: CodingStatus | None = None
    losses: list[SimulatedLoss] = field(default_factory=list)
    """Workers that were killed."""
    samples_per_s_undisturbed: float | None = None
    """Of the same run without kills; None: there were none, or that is not known."""

    def to_json(self) -> dict[str, Any]:
        """Plain data, with the names of the documentation; None for numbers that are not finite."""
        facts, usual = self.facts, self.samples_per_s_undisturbed
        told = {
            "strategy": self.strategy,
            "workers": self.workers,
            "seed": self.seed,
            "trace": self.trace,
            "virtual_s": facts.virtual_s,
            "steps": max(facts.steps),
            "samples": facts.samples,
            "samples_per_s": facts.samples_per_s,
            "bytes_sent": facts.bytes_sent,
            "staleness_mean": facts.staleness_mean,
            "staleness_max": facts.staleness_max,
            "staleness_histogram": histogram(facts.ages),
            "coding": coding_json(self.coding),
            "not_finite": facts.left_out,
            "consensus": self.consensus,
            "waiting_fraction": facts.waiting_fraction,
            "final": {**({"loss": facts.final_loss} if facts.final_loss is not None else {}), **facts.final},
            "curve": facts.curve(),
            "reports": facts.reports,
            "not_saved": facts.not_saved,
            "per_worker": [self._row(rank) for rank in range(self.workers)],
            "timeline": timeline_json(facts.tracks),
            "events": facts.num_events,
            "losses": [asdict(loss) for loss in self.losses],
            "goodput": facts.samples_per_s / usual if usual else None,
        }
        return {name: finite(value) for name, value in told.items()}

    def _row(self, rank: int) -> dict[str, Any]:
        facts, run_s = self.facts, self.facts.virtual_s or 1.0
        seconds, samples = facts.finished_s[rank], facts.samples_of[rank]
        return {
            "rank": rank,
            "seconds": seconds,
            "steps": facts.steps[rank],
            "samples": samples,
            "samples_per_s": samples / seconds if seconds else 0.0,
            "computing_fraction": facts.compute_s[rank] / run_s,
            "reading_fraction": 0.0,
            "waiting_fraction": (seconds - facts.compute_s[rank]) / run_s,
            "paused_fraction": 0.0,
            "bytes_sent": facts.bytes_from[rank],
        }
