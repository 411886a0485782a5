"""What a comparison of several ways to train is made of: plain records that a file keeps and a report shows."""

from collections.abc import Iterator, Sequence
from math import isfinite
from statistics import median

from msgspec import Struct

from weft.core.score import sign

Span = tuple[str, float, float]
"""What a worker's script did (a word of core/activity.py), from when to when, in seconds of the run."""


HAIR = 1e-6


class Target(Struct, frozen=True):
    """A reported number that counts as learned enough: accuracy=0.97, or loss=0.1 where less is better."""

    name: str
    value: float

    def is_reached_by(self, number: float) -> bool:
        """Numbers of 32 bits count as what they stand for: 0.95 of them is a hair less."""
        return sign(self.name) * (number - self.value) <= HAIR * abs(self.value)

    def __str__(self) -> str:
        return f"{self.name}={self.value:g}"


class Setup(Struct, frozen=True):
    """What all contenders of a comparison have in common."""

    script: str
    arguments: list[str]
    workers: int
    seeds: list[int]
    target: Target | None
    slow: dict[str, float]
    """By worker, written as text: how many times as long its iterations take."""
    network: str | None
    """The slow network between the workers, in words."""
    cluster: str | None
    """The cluster that was simulated; None: the runs were real."""
    options: dict[str, str]
    """Whatever else was said on the command line, as it was said."""
    command: str
    machine: dict[str, str | int | float | None]

    @property
    def is_simulated(self) -> bool:
        return self.cluster is not None


class WorkerFigures(Struct, frozen=True):
    """One worker of a run. Shares are of the run's time, from 0 to 1; None is what nobody could measure."""

    rank: int
    steps: int
    samples: float
    computing: float | None
    reading: float | None
    waiting: float | None
    paused: float | None
    bytes_sent: int | None
    spans: list[Span]
    """What its script did in a stretch of the run that is the same for all workers."""


class ComparedRun(Struct, frozen=True):
    """One contender with one seed. Times are virtual ones if the comparison is simulated."""

    seed: int
    seconds: float
    steps: int
    samples: float
    to_target_s: float | None
    """When the target was first reported as reached; None: never, or there is none."""
    samples_to_target: float | None
    final: dict[str, float | None]
    """The last reported numbers; None is what was not finite."""
    reports: list[dict[str, float | None]]
    """Each with `at_s`, `epoch` and the reported numbers; `consensus` if it is known."""
    curve: list[dict[str, float | None]]
    """The training loss on the way: `at_s`, `samples`, `loss`."""
    staleness: dict[str, int] | None
    """How many updates were how many steps old, the ages written as text; None: not known."""
    workers: list[WorkerFigures]
    blame: list[str]
    """Sentences about slow workers, as the live view said them."""

    @property
    def samples_per_s(self) -> float:
        return self.samples / self.seconds if self.seconds else 0.0

    def has_diverged(self, *names: str) -> bool:
        """Whether one of these numbers was reported last as something that is not finite."""
        told = [self.final[name] for name in names if name in self.final]
        return any(value is None or not isfinite(value) for value in told)

    @property
    def bytes_per_worker(self) -> float | None:
        sent = [worker.bytes_sent for worker in self.workers]
        return None if any(one is None for one in sent) else sum(one for one in sent if one is not None) / len(sent)

    @property
    def waiting(self) -> float | None:
        """The share of all workers' time in which their scripts waited for others."""
        shares = [worker.waiting for worker in self.workers]
        known = [share for share in shares if share is not None]
        return sum(known) / len(known) if known and len(known) == len(shares) else None


class Contender(Struct):
    """One way to train: its runs so far, or why there is none."""

    label: str
    """As it can be typed again: 'allreduce share=proportional'."""
    is_baseline: bool = False
    runs: list[ComparedRun] = []
    error: str | None = None

    def times(self) -> list[float]:
        """Seconds to the target of those runs that reached it."""
        return [run.to_target_s for run in self.runs if run.to_target_s is not None]

    @property
    def reached(self) -> bool:
        """Every run reached the target."""
        return bool(self.runs) and self.error is None and len(self.times()) == len(self.runs)

    def to_target_s(self) -> float | None:
        """The median time to the target; None unless every run reached it."""
        return median(self.times()) if self.reached else None

    def finals(self, name: str) -> list[float]:
        """What the runs reported last under a name; those that diverged have no such number."""
        told = [run.final.get(name) for run in self.runs]
        return [value for value in told if value is not None and isfinite(value)]


class Comparison(Struct):
    """Several contenders on the same seeds and samples."""

    setup: Setup
    contenders: list[Contender]
    fingerprint: str = ""
    """Of all that the figures depend on: a file of another comparison is not gone on with."""
    aside: list[Contender] = []
    """Runs of contenders and seeds that this comparison was not asked for: another one may be."""

    @property
    def is_complete(self) -> bool:
        return all(each.error is not None or len(each.runs) == len(self.setup.seeds) for each in self.contenders)

    def standing(self) -> Iterator[Contender]:
        """Those that have run, in the order in which they were named."""
        return (each for each in self.contenders if each.error is None and each.runs)


def spread(values: Sequence[float]) -> tuple[float, float]:
    """The least and the greatest."""
    return min(values), max(values)
