"""`weft bench slownet`: time to 97 % on MNIST over slow links, against DistributedDataParallel and its hooks."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.bench.contender import ROOT
from weft.bench.racing import WEFT, Goal, RaceResult, check_mnist, finish_rows, race
from weft.config.network import EmulatedNetwork
from weft.engines.calibrate.machine import machine
from weft.engines.local.launcher import fork_server_of
from weft.engines.real.job import RealJob

RIVALS = {"ddp": "ddp", "fp16": "ddp+fp16", "powersgd": "ddp+powersgd"}
"""What ratios call them, and the baselines that they are."""
BARS = {"ddp": 10.0, "fp16": 2.0, "powersgd": 2.0}
STRATEGY, COMPRESS = "diloco(period=10, lr=1.0, momentum=0.0)", "topk(0.05)"
"""How Weft trains unless told otherwise."""
FIRST_SEED = 3
"""Not the seed 0, with which strategy, codec and learning rate were chosen."""
SCRIPT = ROOT / "weft/bench/contenders/mnist.py"
LINKS = EmulatedNetwork(12.5e6, 0.01)


@dataclass(frozen=True)
class SlowNetWorkload:
    """What all contenders run alike.

    Scores are those of a replica, so Weft's strategy must have made all replicas equal at every `score_every` steps.
    """

    data: Path
    num_workers: int = 4
    network: EmulatedNetwork = LINKS
    goal: Goal = Goal()  # noqa: RUF009
    batch_size: int = 64
    lr: float = 0.2
    score_every: int = 20
    steps_max: int = 2000
    hidden: int = 1024

    def __post_init__(self) -> None:
        check_mnist(self.data)

    def job(self, seed: int, **how: Any) -> RealJob:
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
        return RealJob(
            script=SCRIPT,
            arguments=arguments,
            num_workers=self.num_workers,
            transport="tcp",
            seed=seed,
            network=self.network,
            **how,
        )

    @property
    def words(self) -> str:
        return f"{self.num_workers} workers, {self.network}, batches of {self.batch_size}, lr {self.lr:g}"


def measure_slownet(
    course: SlowNetWorkload, blocks: int, strategy: str, compress: str | None, tell: Callable[[str], object] = str
) -> dict[str, Any]:
    """The report: contenders take turns, once in each block, with the block's own order of the samples."""
    ways: dict[str, dict[str, Any]] = {WEFT: {"strategy": strategy, "compress": compress}}
    ways |= {rival: {"baseline": baseline} for rival, baseline in RIVALS.items()}
    finishes: dict[str, list[RaceResult]] = {name: [] for name in ways}
    with fork_server_of(course.job(0)) as fork_server:
        for block in range(blocks):
            for name, how in ways.items():
                tell(f"slownet: {name}, block {block + 1} of {blocks}")
                finishes[name].append(race(course.goal, course.job(FIRST_SEED + block, **how), fork_server))
    rows = finish_rows(finishes, WEFT, BARS)
    rows[0]["way"] = strategy if compress is None else f"{strategy} + {compress}"
    return {
        "benchmark": "slownet",
        "unit": f"seconds to {course.goal.accuracy:.0%} ({course.words})",
        "score_every": course.score_every,
        "blocks": blocks,
        "machine": machine(),
        "rows": rows,
        "ratios": {row["rival"]: row["ratio_low"] for row in rows if "ratio_low" in row},
    }
