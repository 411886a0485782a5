"""What a simulated run amounts to: the facts gathered on the way, for tables, plots and JSON."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from weft.observe.records.tracks import Tracks

POINTS_MAX = 200
NOT_REPORTED = ("epoch", "virtual_s", "consensus")
"""What stands with reported numbers."""


@dataclass
class Facts:
    """Counted by the driver while it runs; nothing here feeds back into the run."""

    num_workers: int
    num_events: int = 0
    bytes_from: list[int] = field(init=False)
    """What each worker's process has sent: servers sit with workers, dealt in turn."""
    steps: list[int] = field(init=False)
    num_steps: int = 0
    """All workers' together."""
    samples: float = 0.0
    samples_planned: int | None = None
    """All that the script will train on, if it has said that."""
    samples_of: list[float] = field(init=False)
    """Each worker's."""
    left_out: list[int] = field(init=False)
    """Of each worker: in how many steps its gradient was not finite and therefore left out."""
    compute_s: list[float] = field(init=False)
    stepped_s: list[float] = field(init=False)
    """Each worker's computing in steps that are finished."""
    finished_s: list[float] = field(init=False)
    staleness_sum: float = 0.0
    staleness_count: int = 0
    staleness_max: float = 0.0
    ages: Counter[int] = field(default_factory=Counter)
    """How many updates were how many whole steps old."""
    losses: list[tuple[float, float, float]] = field(default_factory=list)
    """(virtual seconds, samples so far, loss) of every step that told its loss."""
    reports: list[dict[str, float | None]] = field(default_factory=list)
    not_saved: list[str] = field(default_factory=list)
    """Models that are not where the script saved them, and why."""
    tracks: Tracks | None = None
    """What the workers did and sent, if that is kept."""

    def __post_init__(self) -> None:
        self.steps = [0] * self.num_workers
        self.bytes_from = [0] * self.num_workers
        self.samples_of = [0.0] * self.num_workers
        self.left_out = [0] * self.num_workers
        self.compute_s = [0.0] * self.num_workers
        self.stepped_s = [0.0] * self.num_workers
        self.finished_s = [0.0] * self.num_workers

    def note(self, name: str, value: float) -> None:
        """Count a Note; those not known by name are for other observers."""
        if name == "staleness":
            self.staleness_sum += value
            self.staleness_count += 1
            self.staleness_max = max(self.staleness_max, value)
            self.ages[int(value)] += 1

    def sent(self, node: int, num_bytes: int) -> None:
        """Count a message."""
        self.bytes_from[node % self.num_workers] += num_bytes

    def sent_together(self, group: Sequence[int], num_bytes: int) -> None:
        """Count what a group has sent, each of its members about as much."""
        each, rest = divmod(num_bytes, len(group))
        for place, node in enumerate(group):
            self.sent(node, each + (place < rest))

    def step(self, worker: int, now_s: float, samples: float, loss: float | None) -> None:
        """Count a finished step."""
        self.steps[worker] += 1
        self.num_steps += 1
        self.samples += samples
        self.samples_of[worker] += samples
        self.stepped_s[worker] = self.compute_s[worker]
        if loss is not None:
            self.losses.append((now_s, self.samples, loss))

    def report(self, epoch: int, now_s: float, numbers: Mapping[str, float], consensus: float | None = None) -> None:
        """Keep what was reported for an epoch, and how far the replicas were apart then, if that was looked at."""
        self.reports.append({**numbers, "epoch": epoch, "virtual_s": now_s, "consensus": consensus})

    @property
    def bytes_sent(self) -> int:
        return sum(self.bytes_from)

    @property
    def virtual_s(self) -> float:
        """When the last worker's script ended."""
        return max(self.finished_s)

    @property
    def samples_per_s(self) -> float:
        """Samples of finished steps, per virtual second."""
        return self.samples / self.virtual_s if self.virtual_s else 0.0

    @property
    def staleness_mean(self) -> float:
        return self.staleness_sum / self.staleness_count if self.staleness_count else 0.0

    @property
    def waiting_fraction(self) -> float:
        """The share of the workers' time in which their user code did not run."""
        total = sum(self.finished_s)
        return 1 - sum(self.compute_s) / total if total else 0.0

    def curve(self) -> list[dict[str, float]]:
        """The mean training loss in at most POINTS_MAX equal stretches of steps."""
        size = max(self.num_workers, -(-len(self.losses) // POINTS_MAX))
        points = []
        for start in range(0, len(self.losses), size):
            stretch = self.losses[start : start + size]
            now_s, samples, _ = stretch[-1]
            loss = sum(loss for _, _, loss in stretch) / len(stretch)
            points.append({"virtual_s": now_s, "samples": samples, "loss": loss})
        return points

    @property
    def final(self) -> dict[str, float | None]:
        """The last reported numbers, by name."""
        last: dict[str, float | None] = {}
        for report in self.reports:
            last.update({name: value for name, value in report.items() if name not in NOT_REPORTED})
        return last

    @property
    def final_loss(self) -> float | None:
        """The mean training loss at the end."""
        curve = self.curve()
        return curve[-1]["loss"] if curve else None
