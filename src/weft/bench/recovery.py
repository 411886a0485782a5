"""`weft bench recovery`: a worker is killed now and then; who goes on how soon, and how much work is lost?"""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from statistics import mean
from typing import Any

from weft.bench.contender import ROOT, can_run
from weft.bench.disturbed_run import DisturbedRun, PlannedKill, RunRecord, planned_kills
from weft.bench.foretold import ForetoldCourse, foretold_goodput
from weft.bench.group import LOOPBACK
from weft.bench.racing import check_mnist
from weft.bench.recovery_figures import (
    CommittedStep,
    calm_goodput,
    committed_steps,
    full_strength_s,
    lost_work,
    next_step_s,
    percentile,
    samples_per_s,
    started_s,
    still_s,
)
from weft.bench.step_log import RecoveryTask
from weft.config.registry import strategy
from weft.core.errors import ConfigError, NodeLost
from weft.engines.calibrate.machine import machine
from weft.engines.real.worker_env import worker_env
from weft.interpreter import python_module

TORCHRUN, TORCHFT = "torchrun", "torchft"
ALLREDUCE = "allreduce"
CONTENDERS = (ALLREDUCE, "async_gossip", TORCHRUN, TORCHFT)
GOODPUT_BARS = {ALLREDUCE: 0.90, "async_gossip": 0.95}
BARS = {"next_p50_s": 0.3, "next_p99_s": 1.0, "full_p50_s": 3.0}
ACCURACY_BAR = 0.005
"""Bars of Weft's contenders: seconds at most, goodput at least, accuracy at most so much below the undisturbed one."""
COURSE = "weft.bench.contenders.recovery_"
EVERY_S_MIN, SECONDS_MAX = 0.1, 86_400.0
RESTARTS_MAX = 1000
FRESH_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
"""torchrun: a store of its own for each restart. In the one that it else keeps, Gloo finds addresses of the dead."""


@dataclass(frozen=True)
class RecoveryWorkload:
    """What all contenders train, and how they are disturbed: the same workers are killed at the same moments."""

    data: Path
    num_workers: int = 4
    seconds: float = 120.0
    every_s: float = 15.0
    seed: int = 0
    batch_size: int = 32
    lr: float = 0.02
    snapshot_steps: int = 20
    width: int = 32
    num_blocks_after: int = 1
    """How often it trains undisturbed after the kills; before them, always once."""
    undisturbed_s: float | None = None
    """How long it then trains; None: as long as with kills."""
    peer_seconds: float | None = None
    """How long torchrun and torchft train with kills; None: as long as Weft."""
    torchft_python: str = field(default=sys.executable)
    """The interpreter that has torchft."""

    def __post_init__(self) -> None:
        check_mnist(self.data)
        if not EVERY_S_MIN <= self.every_s <= self.seconds <= SECONDS_MAX:
            raise ConfigError(
                f"--every is {self.every_s:g} s and --seconds {self.seconds:g}, "
                f"but {EVERY_S_MIN:g} <= every <= seconds <= {SECONDS_MAX:g} is wanted.\n"
                "  Use --every 15 --seconds 120."
            )
        if self.undisturbed_s is not None and not EVERY_S_MIN <= self.undisturbed_s <= SECONDS_MAX:
            raise ConfigError(
                f"--undisturbed is {self.undisturbed_s:g} s, but {EVERY_S_MIN:g} to {SECONDS_MAX:g} is wanted.\n"
                "  Use --undisturbed 120, or leave it out."
            )
        if self.peer_seconds is not None and not self.every_s <= self.peer_seconds <= self.seconds:
            raise ConfigError(
                f"--peer-seconds is {self.peer_seconds:g}, but --every ({self.every_s:g}) to --seconds "
                f"({self.seconds:g}) is wanted.\n  Use --peer-seconds {self.seconds:g}, or leave it out."
            )
        if not self.plan:
            raise ConfigError(
                f"in {self.seconds:g} s with a kill every {self.every_s:g} s, seed {self.seed} kills nobody.\n"
                f"  Use --seconds {4 * self.every_s:g} or more, or a smaller --every."
            )

    @property
    def plan(self) -> list[PlannedKill]:
        return self.plan_of(self.seconds)

    def plan_of(self, seconds: float) -> list[PlannedKill]:
        return planned_kills(self.every_s, seconds, self.num_workers, self.seed)

    def seconds_of(self, one: "RecoveryContender") -> float:
        """How long a contender trains with kills."""
        return self.seconds if one.is_weft or self.peer_seconds is None else self.peer_seconds

    @property
    def words(self) -> str:
        return (
            f"{self.num_workers} workers, a kill every {self.every_s:g} s for {self.seconds:g} s, "
            f"batches of {self.batch_size}, lr {self.lr:g}"
        )

    def task(self, folder: Path) -> RecoveryTask:
        return RecoveryTask(
            str(folder),
            str(self.data.resolve()),
            self.num_workers,
            self.batch_size,
            self.lr,
            self.snapshot_steps,
            self.seed,
            self.width,
        )


@dataclass(frozen=True)
class RecoveryContender:
    """Whose workers are killed, and how they are started."""

    name: str
    words: str
    command: Callable[[RecoveryWorkload, RecoveryTask], list[str]]
    are_steps_common: bool = True
    """The workers' steps have common numbers; else each counts its own, and nothing is ever rolled back."""
    is_weft: bool = False
    missing: Callable[[], str] = can_run


def contender(name: str, course: RecoveryWorkload) -> RecoveryContender:
    """torchrun, torchft, or Weft with the strategy of this name."""
    if name == TORCHRUN:
        return RecoveryContender(name, f"torchrun, snapshot every {course.snapshot_steps} steps", torchrun)
    if name == TORCHFT:
        missing = partial(missing_torchft, course.torchft_python)
        return RecoveryContender(name, name, torchft, missing=missing)
    is_common = strategy(name).keeps_step
    return RecoveryContender(name, f"weft {name}", partial(weft_replaces, name), is_common, is_weft=True)


def weft_replaces(strategy_words: str, course: RecoveryWorkload, task: RecoveryTask) -> list[str]:
    """Weft as its users start it, so that lost workers are replaced."""
    script = ROOT.joinpath(*f"{COURSE}weft".split(".")).with_suffix(".py")
    how = ["--strategy", strategy_words, "--seed", str(course.seed), "--on-loss", "replace"]
    return python_module("weft", ["run", str(script), "-n", str(course.num_workers), *how, "--", task.text()])


def torchrun(course: RecoveryWorkload, task: RecoveryTask) -> list[str]:
    """torchrun as its users start it on one machine."""
    how = ["--standalone", "--nproc-per-node", str(course.num_workers), "--max-restarts", str(RESTARTS_MAX)]
    return python_module("torch.distributed.run", [*how, "-m", f"{COURSE}torchrun", task.text()])


def torchft(course: RecoveryWorkload, task: RecoveryTask) -> list[str]:
    """torchft's lighthouse, and a loop that starts its replicas, each of one worker, anew when they die."""
    return [course.torchft_python, "-m", f"{COURSE}torchft", task.text()]


def missing_torchft(python: str) -> str:
    """Why torchft cannot be compared with."""
    try:
        tried = subprocess.run([python, "-c", "import torchft"], capture_output=True, text=True, check=False)
    except OSError as error:
        return f"'{python}' cannot be run: {error.strerror}"
    if tried.returncode == 0:
        return ""
    why = tried.stderr.strip().splitlines()[-1] if tried.stderr.strip() else f"exit code {tried.returncode}"
    return "not installed: pip install torchft-nightly" if "No module named 'torchft'" in why else why


def measure_recovery(
    course: RecoveryWorkload, names: Sequence[str] = CONTENDERS, tell: Callable[[str], object] = str
) -> dict[str, Any]:
    """The report: each contender trains undisturbed, then with kills, then undisturbed again."""
    rows = [_row(course, one, tell) for one in [contender(name, course) for name in names]]
    return {
        "benchmark": "recovery",
        "unit": course.words,
        "seed": course.seed,
        "machine": machine(),
        "rows": rows,
        "ratios": ratios_of(rows),
    }


def _row(course: RecoveryWorkload, one: RecoveryContender, tell: Callable[[str], object]) -> dict[str, Any]:
    row: dict[str, Any] = {"work": "mnist", "contender": one.words, "rival": one.name}
    missing = one.missing()
    if missing:
        return row | {"missing": missing}
    try:
        tell(f"recovery: {one.words}, undisturbed")
        quiet = [run_once(course, one, ())]
        tell(f"recovery: {one.words}, with kills")
        disturbed = run_once(course, one, course.plan_of(course.seconds_of(one)))
        for _ in range(course.num_blocks_after):
            tell(f"recovery: {one.words}, undisturbed again")
            quiet.append(run_once(course, one, ()))
    except NodeLost as error:
        return row | {"missing": str(error)}
    row |= run_figures(course, one, disturbed, quiet)
    if one.is_weft:
        tell(f"recovery: {one.words}, simulated")
        row |= foretold_figures(course, one, row["samples_per_s_undisturbed"])
        row["bars"] = verdicts(one.name, row)
    return row


def run_once(course: RecoveryWorkload, one: RecoveryContender, plan: Sequence[PlannedKill]) -> RunRecord:
    """One run of this contender with these kills."""
    environment = {**worker_env(os.environ, 1, keeps_memory=False), **LOOPBACK, **FRESH_STORE}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    with_kills_s = course.seconds_of(one)
    seconds = with_kills_s if plan or course.undisturbed_s is None else course.undisturbed_s
    with DisturbedRun(one.words, course.num_workers, are_common=one.are_steps_common) as run:
        return run.run(one.command(course, course.task(run.folder)), environment, seconds, plan)


def run_figures(
    course: RecoveryWorkload, one: RecoveryContender, disturbed: RunRecord, quiet: Sequence[RunRecord]
) -> dict[str, Any]:
    """The figures of one contender."""

    def counted(record: RunRecord) -> list[CommittedStep]:
        return committed_steps(record.logs, are_common=one.are_steps_common)

    def rate(record: RunRecord) -> float:
        return samples_per_s(counted(record), record.begin_s, record.end_s)

    steps = counted(disturbed)
    next_s = [next_step_s(kill, steps) for kill in disturbed.kills]
    full_s = [full_strength_s(kill, steps, course.num_workers) for kill in disturbed.kills]
    lost = lost_work(disturbed.logs, steps, disturbed.begin_s, disturbed.end_s)
    usual = [rate(record) for record in quiet]
    num_kills = len(disturbed.kills)
    return {
        "seconds": disturbed.end_s - disturbed.begin_s,
        "kills": num_kills,
        "kills_missed": disturbed.num_missed,
        "next_s": _finite(next_s),
        "full_s": _finite(full_s),
        "started_s": _finite([started_s(kill, disturbed.logs) for kill in disturbed.kills]),
        "still_s": _finite([still_s(kill, disturbed.logs, steps) for kill in disturbed.kills]),
        **dict(zip(("next_p50_s", "next_p99_s"), _percentiles(next_s))),
        **dict(zip(("full_p50_s", "full_p99_s"), _percentiles(full_s))),
        "batches_lost": lost.num_batches / max(num_kills, 1),
        "samples_lost": lost.num_samples / max(num_kills, 1),
        "samples_per_s": rate(disturbed),
        "samples_per_s_undisturbed": usual,
        "goodput": rate(disturbed) / mean(usual),
        "goodput_calm": calm_goodput(disturbed.kills, steps, course.num_workers, disturbed.begin_s, disturbed.end_s),
        "accuracy": disturbed.accuracy,
        "accuracy_undisturbed": [record.accuracy for record in quiet],
    }


def foretold_figures(
    course: RecoveryWorkload, one: RecoveryContender, samples_per_s_undisturbed: Sequence[float]
) -> dict[str, Any]:
    """What the simulator says with the same kills, told only how long a step takes while nobody is killed."""
    step_s = course.batch_size * course.num_workers / mean(samples_per_s_undisturbed)
    num_cores = len(os.sched_getaffinity(0))
    told = ForetoldCourse(
        one.name, course.num_workers, num_cores, course.batch_size, step_s, course.seconds, course.seed
    )
    return {"step_s_undisturbed": step_s, "goodput_foretold": foretold_goodput(told, course.plan)}


def verdicts(name: str, row: dict[str, Any]) -> dict[str, bool]:
    """Which of Weft's bars this row meets, by what they are about."""
    met = {figure: row[figure] is not None and row[figure] <= bar for figure, bar in BARS.items()}
    if name in GOODPUT_BARS:
        met["goodput"] = (row["goodput_calm"] or 0.0) >= GOODPUT_BARS[name]
    scores = [row["accuracy"], *row["accuracy_undisturbed"]]
    met["accuracy"] = None not in scores and mean(scores[1:]) - scores[0] <= ACCURACY_BAR
    return met


def _percentiles(seconds: Sequence[float]) -> list[float | None]:
    """p50 and p99; None: not reached, or nobody was killed."""
    return _finite([percentile(seconds, fraction) for fraction in (0.5, 0.99)]) if seconds else [None, None]


def _finite(seconds: Sequence[float]) -> list[float | None]:
    return [None if value == inf else value for value in seconds]


def ratios_of(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Others' median time to the next step over that of Weft's all-reduce; goodput as it is."""
    measured = {row["rival"]: row for row in rows if "missing" not in row}
    ratios = {f"goodput/{name}": row["goodput_calm"] for name, row in measured.items() if "bars" in row}
    own_s = measured.get(ALLREDUCE, {}).get("next_p50_s")
    for name in (TORCHRUN, TORCHFT):
        theirs_s = measured.get(name, {}).get("next_p50_s")
        if own_s and theirs_s:
            ratios[name] = theirs_s / own_s
    return ratios
