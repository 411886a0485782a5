"""`weft bench slownet`: time to 97 % on MNIST over slow links, against DistributedDataParallel and its hooks."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.bench.contender import ROOT
from weft.bench.statistics import interval, paired_ratio
from weft.config.network import Network
from weft.core.errors import ConfigError
from weft.engines.birth import Nursery
from weft.engines.local import Watcher, nursery_of, run_local
from weft.engines.local_job import LocalJob
from weft.engines.machine import machine

WEFT = "weft"
RIVALS = {"ddp": "ddp", "fp16": "ddp+fp16", "powersgd": "ddp+powersgd"}
"""What ratios call them, and the baselines that they are."""
BARS = {"ddp": 10.0, "fp16": 2.0, "powersgd": 2.0}
STRATEGY, COMPRESS = "diloco(period=10, lr=1.0, momentum=0.0)", "topk(0.05)"
"""How Weft trains unless told otherwise."""
FIRST_SEED = 3
"""Not the seed 0, with which strategy, codec and learning rate were chosen."""
BLOCKS_MIN = 3
"""With fewer blocks there are no bounds worth the name, and no bar is met or missed."""
SCRIPT = ROOT / "weft/bench/contenders/mnist.py"
LINKS = Network(12.5e6, 0.01)
NEEDED = "train-images-idx3-ubyte"


@dataclass(frozen=True)
class Course:
    """What all contenders run alike; a contender is given up after `cap_s`.

    Scores are those of a replica, so Weft's strategy must have made all replicas equal at every `score_every` steps.
    """

    data: Path
    num_workers: int = 4
    network: Network = LINKS
    accuracy: float = 0.97
    batch_size: int = 64
    lr: float = 0.2
    score_every: int = 20
    steps_max: int = 2000
    hidden: int = 1024
    cap_s: float = 600.0

    def __post_init__(self) -> None:
        if not any((self.data / f"{NEEDED}{end}").is_file() for end in ("", ".gz")):
            raise ConfigError(
                f"there is no MNIST in '{self.data}'.\n  Name the folder of its four files with --data FOLDER."
            )

    def job(self, seed: int, **how: Any) -> LocalJob:
        """One contender's run."""
        said = {
            "data": self.data,
            "workers": self.num_workers,
            "batch-size": self.batch_size,
            "lr": self.lr,
            "score-every": self.score_every,
            "steps": self.steps_max,
            "hidden": self.hidden,
        }
        arguments = tuple(text for name, value in said.items() for text in (f"--{name}", str(value)))
        return LocalJob(SCRIPT, arguments, self.num_workers, transport="tcp", seed=seed, network=self.network, **how)

    @property
    def words(self) -> str:
        return f"{self.num_workers} workers, {self.network}, batches of {self.batch_size}, lr {self.lr:g}"


@dataclass(frozen=True)
class Finish:
    """How one run ended: so many seconds after its first step, at the target or given up before it."""

    seconds: float
    steps: int
    accuracy: float
    is_reached: bool


class Over(Exception):
    """Enough has been seen of a run."""


def race(course: Course, job: LocalJob, nursery: Nursery, clock: Callable[[], float] = time.perf_counter) -> Finish:
    """Let one contender train until it is accurate enough; its run is ended there and then."""
    began_s: float | None = None
    steps = 0
    finish: Finish | None = None

    def hear(epoch: int, numbers: dict[str, float]) -> None:
        nonlocal began_s, steps, finish
        if began_s is None:
            began_s = clock()
            return
        steps += course.score_every
        is_reached = numbers["accuracy"] >= course.accuracy
        finish = Finish(clock() - began_s, steps, numbers["accuracy"], is_reached)
        if is_reached or finish.seconds >= course.cap_s:
            raise Over

    with suppress(Over):
        run_local(job, Watcher(on_report=hear), nursery.bear)
    if finish is None:
        raise ConfigError("a contender was never scored.\n  Score it before its last step.")
    return finish


def measure_slownet(
    course: Course, blocks: int, strategy: str, compress: str | None, tell: Callable[[str], object] = str
) -> dict[str, Any]:
    """The report: contenders take turns, once in each block, with the block's own order of the samples."""
    ways: dict[str, dict[str, Any]] = {WEFT: {"strategy": strategy, "compress": compress}}
    ways |= {rival: {"baseline": baseline} for rival, baseline in RIVALS.items()}
    finishes: dict[str, list[Finish]] = {name: [] for name in ways}
    with nursery_of(course.job(0)) as nursery:
        for block in range(blocks):
            for name, how in ways.items():
                tell(f"slownet: {name}, block {block + 1} of {blocks}")
                finishes[name].append(race(course, course.job(FIRST_SEED + block, **how), nursery))
    rows = finish_rows(course, finishes, strategy if compress is None else f"{strategy} + {compress}")
    return {
        "benchmark": "slownet",
        "unit": f"seconds to {course.accuracy:.0%} ({course.words})",
        "blocks": blocks,
        "machine": machine(),
        "rows": rows,
        "ratios": {row["rival"]: row["ratio_low"] for row in rows if "ratio_low" in row},
    }


def finish_rows(course: Course, finishes: Mapping[str, Sequence[Finish]], work: str) -> list[dict[str, Any]]:
    """A row for each contender; one that was given up counts with the time that it had, and is said to."""
    rows: list[dict[str, Any]] = []
    own = finishes[WEFT]
    for name, runs in finishes.items():
        row: dict[str, Any] = {"work": "mnist", "contender": name, "rival": name}
        row["runs"] = [{"seconds": r.seconds, "steps": r.steps, "accuracy": r.accuracy} for r in runs]
        rows.append(row)
        seconds = _seconds(runs)
        row |= dict(zip(("seconds", "low", "high"), interval(seconds)))
        if name == WEFT:
            row["way"] = work
        if not all(run.is_reached for run in runs):
            row["contender"] = f"{name} (gave up at {runs[-1].accuracy:.1%})"
        if name == WEFT or not all(run.is_reached for run in own):
            continue
        row |= dict(zip(("ratio", "ratio_low", "ratio_high"), paired_ratio(seconds, _seconds(own))))
        if len(runs) >= BLOCKS_MIN:
            row["bar"] = BARS[name]
    return rows


def _seconds(runs: Iterable[Finish]) -> list[float]:
    return [run.seconds for run in runs]
