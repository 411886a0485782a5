"""A campaign: many seeds, run and audited on several processes, and what they covered."""

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from signal import SIG_IGN, SIGINT, signal
from statistics import median

from weft.fuzz.auditor import audit
from weft.fuzz.coding import codec_name
from weft.fuzz.evidence import Violation
from weft.fuzz.run import run
from weft.fuzz.scenario import draw

CHUNK = 2
"""Seeds that a process takes at a time; an interrupted campaign ends when those are done."""
COLLECT_EVERY = 16
"""Seeds after which a process collects what was left in cycles; a collector that looks all the time took a quarter."""


@dataclass(frozen=True)
class Verdict:
    """What became of one seed."""

    seed: int
    strategy: str
    codec: str | None
    """The name of the codec, if anything is coded."""
    faults: tuple[str, ...]
    """The kinds of faults that happened."""
    num_events: int
    trace: str
    violations: tuple[Violation, ...]

    def __repr__(self) -> str:
        """Short, for assertions that fail: what was broken first, and how the story of the seed is told."""
        found = [f"invariant {one.invariant}: {one.what.splitlines()[0]}" for one in self.violations[:1]]
        return f"<seed {self.seed} of {self.strategy}: {''.join(found) or 'clean'}>"


def judge(seed: int, names: Sequence[str]) -> Verdict:
    """Run the scenario of a seed and audit it; whatever that raises is found, too, so that the seed is known."""
    try:
        return _judged(seed, names)
    except Exception as error:
        name = names[seed % len(names)].partition("(")[0]
        return Verdict(seed, name, None, (), 0, "", (Violation.of_auditor(error),))


def _judged(seed: int, names: Sequence[str]) -> Verdict:
    scenario = draw(seed, names)
    evidence = run(scenario)
    kinds = tuple(dict.fromkeys(type(fault).__name__ for fault in scenario.faults.schedule))
    num_events = len(evidence.recording.entries)
    codec = None if scenario.compress is None else codec_name(scenario.compress)
    return Verdict(seed, evidence.name, codec, kinds, num_events, evidence.trace, tuple(audit(evidence)))


def judge_all(seeds: Sequence[int], names: Sequence[str], jobs: int) -> Iterator[Verdict]:
    """The verdicts in the order of the seeds, from so many processes at a time.

    Those processes leave Ctrl-C, which the terminal sends to all of them, to this one.
    """
    if jobs == 1:
        yield from (judge(seed, names) for seed in seeds)
        return
    with ProcessPoolExecutor(jobs, get_context("fork"), _begin_process) as pool:
        yield from pool.map(partial(_judge_and_collect, names=tuple(names)), seeds, chunksize=CHUNK)


def _begin_process() -> None:
    signal(SIGINT, SIG_IGN)
    gc.freeze()  # what all processes have in common is no garbage
    gc.disable()


def _judge_and_collect(seed: int, names: Sequence[str]) -> Verdict:
    verdict = judge(seed, names)
    if seed % COLLECT_EVERY == 0:
        gc.collect()
    return verdict


@dataclass
class Coverage:
    """What a campaign has looked at."""

    strategies: Counter[str] = field(default_factory=Counter)
    codecs: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    num_events: list[int] = field(default_factory=list)
    failures: list[Verdict] = field(default_factory=list)

    def add(self, verdict: Verdict) -> None:
        self.strategies[verdict.strategy] += 1
        if verdict.codec is not None:
            self.codecs[verdict.codec] += 1
        self.faults.update(verdict.faults)
        self.num_events.append(verdict.num_events)
        if verdict.violations:
            self.failures.append(verdict)

    @property
    def num_seeds(self) -> int:
        return len(self.num_events)

    @property
    def median_events(self) -> float:
        return median(self.num_events) if self.num_events else 0.0


def campaign(
    coverage: Coverage,
    seeds: Sequence[int],
    names: Sequence[str],
    jobs: int,
    on_verdict: Callable[[Verdict], None] = lambda verdict: None,
) -> None:
    """Judge all seeds; `coverage` has each when it is known, so that what was found outlives an interruption."""
    for verdict in judge_all(seeds, names, jobs):
        coverage.add(verdict)
        on_verdict(verdict)
