"""What `weft.run` and `weft.simulate` return: the outcome of a run, as a record to read."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.observe.records.quantities import human_seconds


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended. A run that failed has no outcome: it raises a WeftError, with the worker's traceback."""

    strategy: str
    workers: int
    steps: int
    """Steps of the worker that made most."""
    samples: float
    seconds: float
    """Seconds from when all workers had joined until all scripts had ended; virtual time in a simulation."""
    numbers: Mapping[str, float | None]
    """The numbers that were reported last, by name, and the last loss; None for what is not finite."""
    reports: list[dict[str, Any]]
    """Every report: its epoch, its numbers, and its time."""
    was_stopped: bool
    """Whether Ctrl-C ended the run early, in order."""
    saved: list[Path]
    """Paths of the models that the script saved."""
    figures: Mapping[str, Any]
    """Everything that `weft run --json` and `weft simulate --json` write."""

    @classmethod
    def of(
        cls, figures: Mapping[str, Any], *, was_stopped: bool = False, saved: list[Path] | None = None
    ) -> "RunOutcome":
        """The outcome from the data that --json writes."""
        seconds = figures["wall_s"] if figures["virtual_s"] is None else figures["virtual_s"]
        return cls(
            strategy=figures["strategy"],
            workers=figures["workers"],
            steps=figures["steps"],
            samples=figures["samples"],
            seconds=seconds,
            numbers=dict(figures["final"]),
            reports=list(figures["reports"]),
            was_stopped=was_stopped,
            saved=saved or [],
            figures=figures,
        )

    def __repr__(self) -> str:
        """One line for notebooks."""
        told = ", ".join(
            f"{name} {'not finite' if value is None else f'{value:.4g}'}" for name, value in self.numbers.items()
        )
        ended = "stopped early" if self.was_stopped else "ended well"
        saved = f", saved {', '.join(map(str, self.saved))}" if self.saved else ""
        workers = f"{self.workers} worker{'' if self.workers == 1 else 's'}"
        return (
            f"<{self.strategy} on {workers}: {self.steps:,} steps, {self.samples:,.0f} samples in "
            f"{human_seconds(self.seconds)}, {ended}{': ' if told else ''}{told}{saved}>"
        )
