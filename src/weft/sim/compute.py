"""How long a worker's iteration takes in virtual time. Never measured during a run, so a seed repeats."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import exp
from random import Random
from typing import Protocol

from weft.core.errors import ConfigError

FORWARD_SHARE = 1 / 3
"""The forward pass takes a third of an iteration; backward fills the buckets in the rest."""


class ComputeTime(Protocol):
    """Seconds of one iteration."""

    def seconds(self, worker: int, step: int, samples: float, rng: Random) -> float: ...


@dataclass(frozen=True)
class PerSample:
    """Seconds for each sample and for each step, by worker; with `sigma`, a lognormal factor of mean 1."""

    seconds_per_sample: Sequence[float]
    sigma: float = 0.0
    seconds_per_step: Sequence[float] | None = None
    """What a step takes however many samples it has; None: nothing."""

    def seconds(self, worker: int, step: int, samples: float, rng: Random) -> float:
        seconds = samples * self.seconds_per_sample[worker]
        if self.seconds_per_step is not None:
            seconds += self.seconds_per_step[worker]
        if self.sigma:
            seconds *= exp(rng.gauss(0.0, self.sigma) - self.sigma**2 / 2)
        return seconds


@dataclass(frozen=True)
class Trace:
    """Recorded step times, one row for each worker; they repeat when the run is longer."""

    step_s: Sequence[Sequence[float]]

    def __post_init__(self) -> None:
        if not self.step_s or not all(self.step_s):
            raise ConfigError(
                "the trace has no step times for some worker.\n  Give each worker at least one, in seconds."
            )

    def seconds(self, worker: int, step: int, samples: float, rng: Random) -> float:
        row = self.step_s[worker % len(self.step_s)]
        return row[step % len(row)]


def ready_shares(num_elements: Sequence[int]) -> list[float]:
    """When backward has filled each bucket, as a share of the iteration's time; the last is at its end."""
    total = sum(num_elements)
    return [FORWARD_SHARE + (1 - FORWARD_SHARE) * done / total for done in accumulate(num_elements)]
