"""Comparisons as a real one might have gone: made from a seed, so that pages and words have something to show."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from random import Random

from weft.observe.records.comparison import ComparedRun, Comparison, Contender, Setup, Span, Target, WorkerFigures

SAMPLES = 60_000.0
EPOCHS = 10
COMMAND = "weft compare train.py -n 4 --slow 0:4 --strategy allreduce --strategy async_gossip --baseline ddp"


@dataclass(frozen=True)
class Habit:
    """How a way to train behaves: how long the steps of each worker take, who waits, and how fast it learns."""

    label: str
    step_s: Sequence[float] = (0.04, 0.01, 0.01, 0.01)
    waits: bool = False
    learns: float = 1.0
    """How much a sample teaches; 1 is what it does in a synchronous run."""
    staleness: Sequence[int] | None = (0,)
    consensus: float | None = 0.0
    bytes_sent: int | None = 190_000_000
    is_baseline: bool = False
    is_observed: bool = True
    """Whether anybody looked inside: not so for a baseline."""


HABITS = (
    Habit("ddp", waits=True, staleness=None, consensus=None, bytes_sent=None, is_baseline=True, is_observed=False),
    Habit("allreduce share=proportional", (0.019, 0.017, 0.017, 0.017), waits=True),
    Habit("quorum(k=3)", (0.04, 0.0135, 0.0135, 0.0135), learns=0.85, staleness=(0, 0, 0, 1)),
    Habit("ssp(staleness=3)", (0.04, 0.02, 0.02, 0.02), learns=0.95, staleness=(0, 1, 1, 2, 3)),
    Habit("async_gossip", learns=0.95, staleness=(0, 1, 1, 2, 5), consensus=0.02, bytes_sent=64_000_000),
    Habit("local_sgd(every=8)", waits=True, learns=0.7, staleness=None, consensus=0.008, bytes_sent=12_000_000),
)


def spans(habit: Habit, rank: int, start_s: float, length_s: float) -> list[Span]:
    """A stretch of a worker's life: reading, computing, and waiting for the slowest if that is its habit."""
    mine, slowest = habit.step_s[rank], max(habit.step_s)
    found: list[Span] = []
    now = start_s
    while now < start_s + length_s:
        read, done = now + 0.08 * mine, now + mine
        end = now + slowest * 1.05 if habit.waits else done * 1.0
        found += [("input", now, read), ("compute", read, done), ("send", done - 0.3 * mine, done)]
        if end > done:
            found.append(("wait", done, end))
        now = end
    stop = start_s + length_s
    return [(what, begin, min(end, stop)) for what, begin, end in found if begin < stop]


def worker(habit: Habit, rank: int, seconds: float) -> WorkerFigures:
    """The figures of one worker that follow from its habit."""
    mine, slowest = habit.step_s[rank], max(habit.step_s)
    length = slowest * 1.05 if habit.waits else mine
    steps = int(seconds / length)
    computing = round(0.92 * mine / length, 4)
    shares: tuple[float | None, float | None, float | None, float | None] = (None, None, None, None)
    if habit.is_observed:
        shares = (computing, round(0.08 * mine / length, 4), round(1 - mine / length, 4), 0.0)
    stretch = spans(habit, rank, seconds / 2, 4.2 * slowest) if habit.is_observed else []
    sent = None if habit.bytes_sent is None else habit.bytes_sent + 1000 * rank
    return WorkerFigures(rank, steps, 32.0 * steps, *shares, sent, stretch)


def run(habit: Habit, seed: int, target: Target | None) -> ComparedRun:
    """One run over all samples."""
    dice = Random(f"{habit.label}/{seed}")
    length = max(habit.step_s) * 1.05
    pace = sum(32.0 / (length if habit.waits else each) for each in habit.step_s) * dice.uniform(0.97, 1.03)
    seconds, total = EPOCHS * SAMPLES / pace / 10, EPOCHS * SAMPLES / 10
    skill = habit.learns * dice.uniform(0.95, 1.05)

    def accuracy(samples: float) -> float:
        return round(0.985 - 0.885 * exp(-5.0 * skill * (samples / total) ** 0.7), 4)

    reports: list[dict[str, float | None]] = []
    curve: list[dict[str, float | None]] = []
    for i in range(EPOCHS):
        done = total * (i + 1) / EPOCHS
        report: dict[str, float | None] = {
            "at_s": seconds * done / total,
            "epoch": float(i),
            "accuracy": accuracy(done),
        }
        if habit.consensus is not None:
            report["consensus"] = habit.consensus * (1.5 - i / EPOCHS) * dice.uniform(0.8, 1.2)
        reports.append(report)
    for i in range(200):
        done = total * (i + 1) / 200
        loss = 2.3 * exp(-6.0 * skill * (done / total) ** 0.6) + 0.05 + dice.gauss(0.0, 0.01)
        curve.append({"at_s": seconds * done / total, "samples": done, "loss": max(0.01, loss)})
    there = [r for r in reports if target is not None and target.is_reached_by(r[target.name] or 0.0)]
    ages = None
    if habit.staleness is not None:
        ages = {str(age): 40 * habit.staleness.count(age) + dice.randrange(8) for age in sorted(set(habit.staleness))}
    slowest = "Worker 0 computes 4.0 times as long as the others: its machine is slow or shared."
    return ComparedRun(
        seed=seed,
        seconds=seconds,
        steps=int(total / 32 / 4),
        samples=total,
        to_target_s=there[0]["at_s"] if there else None,
        samples_to_target=total * ((there[0]["epoch"] or 0.0) + 1) / EPOCHS if there else None,
        final={"loss": curve[-1]["loss"], "accuracy": reports[-1]["accuracy"]},
        reports=reports,
        curve=curve,
        staleness=ages,
        workers=[worker(habit, rank, seconds) for rank in range(len(habit.step_s))],
        blame=[slowest] if habit.is_observed else [],
    )


def measured(
    to_target_s: float | None,
    final: float | None = 0.98,
    seconds: float = 10.0,
    samples_to_target: float | None = None,
    waiting: float | None = None,
    sent: int | None = None,
) -> ComparedRun:
    """A run of which only some figures are known."""
    worker = WorkerFigures(0, 4, 1000.0, None, None, waiting, None, sent, [])
    return ComparedRun(
        0, seconds, 4, 1000.0, to_target_s, samples_to_target, {"accuracy": final}, [], [], None, [worker], []
    )


def among(*contenders: Contender, target: float | None = 0.97) -> Comparison:
    """A comparison of these."""
    seeds = max((len(each.runs) for each in contenders), default=0) or 1
    return Comparison(setup(seeds, None if target is None else Target("accuracy", target)), list(contenders))


def setup(seeds: int, target: Target | None, cluster: str | None = None) -> Setup:
    """What was asked for."""
    return Setup(
        script="train.py",
        arguments=["--epochs", "10"],
        workers=4,
        seeds=list(range(seeds)),
        target=target,
        slow={"0": 4.0},
        network=None,
        cluster=cluster,
        options={"compress": "none", "lr-scaling": "linear"},
        command=COMMAND,
        machine={"cpu": "AMD EPYC 7B13", "cores": 2, "memory_bytes": 8e9, "python": "3.11.2", "torch": "2.13.0"},
    )


def comparison(
    habits: Sequence[Habit] = HABITS, seeds: int = 3, target: float | None = 0.97, failed: Sequence[str] = ("gossip",)
) -> Comparison:
    """A whole comparison: worker 0 is four times as slow, and some contenders fail."""
    aim = None if target is None else Target("accuracy", target)
    contenders = [
        Contender(habit.label, habit.is_baseline, [run(habit, seed, aim) for seed in range(seeds)]) for habit in habits
    ]
    words = "NodeLost: worker 2 (host b, pid 4711) stopped answering at step 318: killed by signal 9.\n  Restart it."
    return Comparison(setup(seeds, aim), [*contenders, *(Contender(label, error=words) for label in failed)], "abc")
