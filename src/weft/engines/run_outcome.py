"""What `weft.run` and `weft.simulate` return: the outcome of a run, as a record to read."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.observe.records.quantities import human_seconds


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended. One that failed has none: it raises an error of Weft's, with the worker's traceback."""

    strategy: str
    workers: int
    steps: int
    """Of the worker that made most."""
    samples: float
    seconds: float
    """From when all workers had joined until all scripts had ended; of a simulation, in virtual time."""
    numbers: Mapping[str, float | None]
    """What was reported last, by name, and the last loss; None is not a number."""
    reports: list[dict[str, Any]]
    """Every report: its epoch, its numbers, and when it was."""
    was_stopped: bool
    """Ctrl-C ended it early, in order."""
    saved: list[Path]
    """Models of all workers that the script saved."""
    figures: Mapping[str, Any]
    """Everything that `weft run --json` and `weft simulate --json` write."""

    @classmethod
    def of(
        cls, figures: Mapping[str, Any], *, was_stopped: bool = False, saved: list[Path] | None = None
    ) -> "RunOutcome":
        """From what --json writes."""
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
        """One line, as a notebook shows it."""
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
