"""A benchmark: works, who competes in them, and the bars; measuring it gives the report that is shown and stored."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from weft.bench.alternation import alternate
from weft.bench.contender import BenchmarkContender, Launcher
from weft.bench.group import Group
from weft.bench.statistics import interval, paired_ratio
from weft.core.errors import ConfigError, did_you_mean
from weft.engines.calibrate.machine import machine

WEFT = "weft"
"""The contender that all ratios are against."""


@dataclass(frozen=True)
class Work:
    """A line of a benchmark, such as the sum of 16 MiB by 4 processes."""

    name: str
    task: str
    num_processes: int
    rounds_share: float = 1.0
    """What part of the rounds it gets: less where it is listed only."""
    launcher: Launcher | None = None
    """How Weft is started for it; None: as for all works."""

    def started(self, one: BenchmarkContender) -> BenchmarkContender:
        """A contender as it is started for this work."""
        return one if one.name != WEFT or self.launcher is None else replace(one, launcher=self.launcher)


@dataclass(frozen=True)
class Benchmark:
    """What is measured. `bars` are keyed as ratios are: 'other/work'."""

    name: str
    unit: str
    works: tuple[Work, ...]
    contenders: tuple[BenchmarkContender, ...]
    bars: Mapping[str, float]
    block_s: float

    def only(self, names: Sequence[str]) -> tuple[Work, ...]:
        """These works, or all of them."""
        self._check_known("work", names, [work.name for work in self.works])
        return tuple(work for work in self.works if not names or work.name in names)

    def against(self, names: Sequence[str]) -> "Benchmark":
        """The same between Weft and these contenders, by their names or those of their ratios, or all of them: of two,
        more blocks fit into the same time."""
        known = [name for one in self.contenders for name in (one.name, one.ratio_name)]
        self._check_known("contender", names, list(dict.fromkeys(known)))
        wanted = {WEFT, *(names or known)}
        kept = (one for one in self.contenders if wanted & {one.name, one.ratio_name})
        return replace(self, contenders=tuple(kept))

    def competing(self, work: Work) -> tuple[BenchmarkContender, ...]:
        """Those that compete in a work."""
        return tuple(one for one in self.contenders if not one.only or work.name in one.only)

    def _check_known(self, what: str, names: Sequence[str], known: Sequence[str]) -> None:
        for name in names:
            if name not in known:
                raise ConfigError(f"{what} '{name}' is not one of '{self.name}'.\n  {did_you_mean(name, known)}")


def measure(
    benchmark: Benchmark, works: Sequence[Work], num_rounds: int, tell: Callable[[str], object] = str
) -> dict[str, Any]:
    """The report of these works; `tell` hears what is being measured."""
    rows: list[dict[str, Any]] = []
    for work in works:
        tell(f"{benchmark.name}: {work.name}")
        rows += work_rows(benchmark, work, times(benchmark, work, num_rounds))
    return {
        "benchmark": benchmark.name,
        "unit": benchmark.unit,
        "blocks": num_rounds,
        "machine": machine(),
        "rows": rows,
        "ratios": {f"{row['rival']}/{row['work']}": row["ratio_low"] for row in rows if row.get("counts")},
    }


def times(benchmark: Benchmark, work: Work, num_rounds: int) -> dict[str, list[float]]:
    """Seconds of one repetition for each contender that can run here, one value of each round."""
    with ExitStack() as stack:
        groups = {
            one.name: stack.enter_context(Group(work.started(one), work.task, work.num_processes))
            for one in benchmark.competing(work)
            if not one.missing()
        }
        for group in groups.values():
            group.meet()
        return alternate(groups, max(1, round(num_rounds * work.rounds_share)), benchmark.block_s)


def work_rows(benchmark: Benchmark, work: Work, seconds: Mapping[str, Sequence[float]]) -> list[dict[str, Any]]:
    """A row for each contender; the bar is on the faster of those that are one rival."""
    fastest: dict[str, str] = {}
    for one in sorted((c for c in benchmark.contenders if c.name in seconds), key=lambda c: median(seconds[c.name])):
        fastest.setdefault(one.ratio_name, one.name)
    rows: list[dict[str, Any]] = []
    for one in benchmark.competing(work):
        row: dict[str, Any] = {"work": work.name, "contender": one.name, "rival": one.ratio_name}
        rows.append(row)
        if one.name not in seconds:
            row["missing"] = one.missing()
            continue
        row |= dict(zip(("seconds", "low", "high"), interval(seconds[one.name])))
        if one.name == WEFT or WEFT not in seconds:
            continue
        row |= dict(zip(("ratio", "ratio_low", "ratio_high"), paired_ratio(seconds[one.name], seconds[WEFT])))
        row["counts"] = fastest[one.ratio_name] == one.name
        if row["counts"]:
            row["bar"] = benchmark.bars.get(f"{one.ratio_name}/{work.name}")
    return rows
