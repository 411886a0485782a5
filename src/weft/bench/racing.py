"""Time to an accuracy: a contender trains until it is accurate enough, and its run is ended there and then."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.bench.statistics import interval, paired_ratio
from weft.core.errors import ConfigError
from weft.engines.local.forked_workers import ForkServer
from weft.engines.local.launcher import run_local
from weft.engines.real.job import RealJob
from weft.engines.real.observer import Observer

WEFT = "weft"
BLOCKS_MIN = 3
"""With fewer blocks there are no bounds worth the name, and no bar is met or missed."""
NEEDED = "train-images-idx3-ubyte"


@dataclass(frozen=True)
class Goal:
    """An accuracy, and after how many seconds a contender is given up that has not reached it."""

    accuracy: float = 0.97
    cap_s: float = 600.0


@dataclass(frozen=True)
class RaceResult:
    """How one run ended: after so many seconds and scores, at the goal or given up before it."""

    seconds: float
    scores: int
    accuracy: float
    is_reached: bool


class Over(Exception):
    """Enough has been seen of a run."""


def race(goal: Goal, job: RealJob, fork_server: ForkServer) -> RaceResult:
    """Let one contender train; its time begins when all of its workers have joined."""
    finish: RaceResult | None = None
    is_over = False

    def hear(report: Mapping[str, float | None]) -> None:
        nonlocal finish, is_over
        if is_over:  # workers that are being ended may still have something to say
            return
        seconds, accuracy = report["wall_s"] or 0.0, report["accuracy"] or 0.0
        scores = 1 if finish is None else finish.scores + 1
        finish = RaceResult(seconds, scores, accuracy, accuracy >= goal.accuracy)
        is_over = finish.is_reached or seconds >= goal.cap_s
        if is_over:
            raise Over

    with suppress(Over):
        run_local(job, Observer(on_reported=hear), fork_server.fork)
    if finish is None:
        raise ConfigError("a contender was never scored.\n  Score it before its last step.")
    return finish


def finish_rows(
    finishes: Mapping[str, Sequence[RaceResult]], own_name: str, bars: Mapping[str, float]
) -> list[dict[str, Any]]:
    """A row for each contender, with its time in relation to that of one of them.

    One that was given up counts with the time that it had, and is said to.
    """
    rows: list[dict[str, Any]] = []
    own = finishes[own_name]
    for name, runs in finishes.items():
        row: dict[str, Any] = {"work": "mnist", "contender": name, "rival": name}
        row["runs"] = [{"seconds": r.seconds, "scores": r.scores, "accuracy": r.accuracy} for r in runs]
        rows.append(row)
        seconds = _seconds(runs)
        row |= dict(zip(("seconds", "low", "high"), interval(seconds)))
        if not all(run.is_reached for run in runs):
            row["contender"] = f"{name} (gave up at {runs[-1].accuracy:.1%})"
        if name == own_name or not all(run.is_reached for run in own):
            continue
        row |= dict(zip(("ratio", "ratio_low", "ratio_high"), paired_ratio(seconds, _seconds(own)[: len(seconds)])))
        if len(runs) >= BLOCKS_MIN and name in bars:
            row["bar"] = bars[name]
    return rows


def _seconds(runs: Iterable[RaceResult]) -> list[float]:
    return [run.seconds for run in runs]


def check_mnist(folder: Path) -> None:
    """Refuse a folder without the files of MNIST."""
    if not any((folder / f"{NEEDED}{end}").is_file() for end in ("", ".gz")):
        raise ConfigError(f"there is no MNIST in '{folder}'.\n  Name the folder of its four files with --data FOLDER.")
