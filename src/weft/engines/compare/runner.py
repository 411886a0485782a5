"""Makes the runs of a comparison, and keeps them in a file, so that an interrupted comparison can go on."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

import weft
from weft.config.ways import Way
from weft.core.errors import ConfigError, WeftError
from weft.engines.calibrate.machine import machine
from weft.observe.records.comparison import ComparedRun, Comparison, Contender, Setup, Target, WorkerFigures

PACKAGE = Path(weft.__file__).parent
Row = Mapping[str, Any]
"""The JSON of a run's outcome."""


class Interrupted(Exception):
    """The user has interrupted the comparison; the runs that have ended are kept."""


@dataclass(frozen=True)
class Trial:
    """One run of a comparison: a way with one of the seeds, and its number among all runs."""

    way: Way
    seed: int
    number: int
    of: int
    left_s: float | None
    """Estimated time of this and all later runs; None while none has ended."""

    def __str__(self) -> str:
        return f"{self.way.label}, seed {self.seed}"


class ComparisonRun:
    """All runs of a comparison, one after another."""

    def __init__(
        self, setup: Setup, ways: Sequence[Way], file: Path, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._ways = ways
        self.file = file
        self._clock = clock
        self.target = setup.target
        self.comparison = Comparison(
            setup, [Contender(way.label, way.baseline is not None) for way in ways], _fingerprint(setup)
        )
        self.moved_to: Path | None = None
        """Where the file of another comparison, which had the same path, was moved to; None if there was none."""
        self.not_kept: OSError | None = None
        """The error with which the file could not be written after the last run."""
        self._take_up()

    @property
    def has_runs(self) -> bool:
        """Whether the file has runs of this comparison."""
        return any(contender.runs for contender in self.comparison.contenders)

    def run(self, run: Callable[[Trial], Row]) -> Comparison:
        """Make the runs that are missing, each by calling `run`, which returns its outcome's JSON. A way that fails is
        left out, and the others go on.

        If the first run finds that the script cannot start, raises that error: no other way would help.
        """
        took_s: list[float] = []
        lacking = list(self._lacking())
        for index, (contender, way, seed) in enumerate(lacking):
            left = len(lacking) - index
            if contender.error is not None:
                continue
            left_s = left * sum(took_s) / len(took_s) if took_s else None
            total = len(self._ways) * len(self.comparison.setup.seeds)
            began_s = self._clock()
            try:
                row = run(Trial(way, seed, total - left + 1, total, left_s))
            except Interrupted:
                raise
            except Exception as error:  # a bug in one contender must not end the others' runs
                if isinstance(error, WeftError) and error.before_join and not index and not self.has_runs:
                    raise
                contender.error = str(error) if isinstance(error, WeftError) else f"{type(error).__name__}: {error}"
            else:
                contender.runs.append(run_of(row, self.target))
            took_s.append(self._clock() - began_s)
            self._keep()
        return self.comparison

    def _lacking(self) -> Iterator[tuple[Contender, Way, int]]:
        """The missing runs, seed by seed, so that an unfinished comparison has runs of every contender."""
        for seed in self.comparison.setup.seeds:
            for contender, way in zip(self.comparison.contenders, self._ways, strict=True):
                if not any(run.seed == seed for run in contender.runs):
                    yield contender, way, seed

    def _take_up(self) -> None:
        """Load earlier runs from the file; those of other seeds or contenders stay in it, too."""
        if not self.file.is_file():
            return
        before = _read(self.file)
        if before.fingerprint != self.comparison.fingerprint:
            self.moved_to = self.file.with_name(f"{self.file.stem}.{before.fingerprint}{self.file.suffix}")
            self.file.replace(self.moved_to)
            return
        seeds = self.comparison.setup.seeds
        asked = {contender.label: contender for contender in self.comparison.contenders}
        for kept in [*before.contenders, *before.aside]:
            runs = [_aimed_at(run, self.target) for run in kept.runs]
            if kept.label in asked:
                asked[kept.label].runs += [run for run in runs if run.seed in seeds]
                runs = [run for run in runs if run.seed not in seeds]
            if runs:
                self.comparison.aside.append(Contender(kept.label, kept.is_baseline, runs))

    def _keep(self) -> None:
        """Replace the file atomically: readers, also after a crash, find the old or the new one."""
        fresh = self.file.with_name(f".{self.file.name}.{os.getpid()}")
        try:
            fresh.write_bytes(msgspec.json.format(msgspec.json.encode(self.comparison), indent=1))
            fresh.replace(self.file)
        except OSError as error:  # the runs are still in memory, and are written again after the next one
            fresh.unlink(missing_ok=True)
            self.not_kept = error
        else:
            self.not_kept = None


def _read(file: Path) -> Comparison:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Comparison)
    except msgspec.MsgspecError as error:
        raise ConfigError(
            f"'{file}' is not the file of a comparison, and would be overwritten: {error}.\n"
            "  Remove it, or give --report another name."
        ) from error


def _aimed_at(run: ComparedRun, target: Target | None) -> ComparedRun:
    """`run` with its time to `target`, computed from its reports."""
    reached = None if target is None else _reached(target, run.reports)
    samples = None if reached is None else _samples_at(run.curve, reached)
    return msgspec.structs.replace(run, to_target_s=reached, samples_to_target=samples)


def _fingerprint(setup: Setup) -> str:
    """A digest of all that runs depend on: the script and the modules beside it, Weft itself, the machine, the options.

    Seeds, contenders and the target may change.
    """
    here = machine()
    here.pop("date")
    same = msgspec.structs.replace(setup, seeds=[], target=None, command="", machine=here)
    files = [*sorted(Path(setup.script).resolve().parent.glob("*.py")), *sorted(PACKAGE.rglob("*.py"))]
    if setup.cluster is not None and Path(setup.cluster).is_file():
        files.append(Path(setup.cluster))
    digest = blake2b(msgspec.json.encode(same, order="sorted"), digest_size=8)
    for file in files:
        digest.update(b"\0" + file.read_bytes())
    return digest.hexdigest()


def run_of(row: Row, target: Target | None) -> ComparedRun:
    """A run as a comparison keeps it, from the JSON of its outcome."""
    clock = "wall_s" if row["virtual_s"] is None else "virtual_s"
    reports = [_at(report, clock) for report in row["reports"]]
    curve = [_at(point, clock) for point in row["curve"]]
    reached = None if target is None else _reached(target, reports)
    spans = row["timeline"] or [[] for _ in row["per_worker"]]
    return ComparedRun(
        seed=row["seed"],
        seconds=row[clock],
        steps=row["steps"],
        samples=row["samples"],
        to_target_s=reached,
        samples_to_target=None if reached is None else _samples_at(curve, reached),
        final=row["final"],
        reports=reports,
        curve=curve,
        staleness=row["staleness_histogram"],
        workers=[_worker(told, spans[told["rank"]], row["bytes_sent"] is None) for told in row["per_worker"]],
        blame=list(row.get("blame") or ()),
    )


def _at(entry: Row, clock: str) -> dict[str, float | None]:
    """`entry` with its time, wall_s or virtual_s, under the name at_s."""
    return {"at_s": entry[clock], **{name: value for name, value in entry.items() if name != clock}}


def _reached(target: Target, reports: Sequence[Row]) -> float | None:
    for report in reports:
        number = report.get(target.name)
        if number is not None and target.is_reached_by(number):
            at_s: float = report["at_s"]
            return at_s
    return None


def _samples_at(curve: Sequence[Row], at_s: float) -> float | None:
    """Samples that all workers had trained on by `at_s`, from the points of `curve` until then; None without any."""
    before = [point["samples"] for point in curve if point["at_s"] <= at_s]
    return max(before, default=None)


def _worker(told: Row, spans: list[Any], is_baseline: bool) -> WorkerFigures:
    return WorkerFigures(
        rank=told["rank"],
        steps=told["steps"],
        samples=told["samples"],
        computing=told["computing_fraction"],
        reading=told["reading_fraction"],
        waiting=told["waiting_fraction"],
        paused=told["paused_fraction"],
        bytes_sent=None if is_baseline else told["bytes_sent"],
        spans=[(activity, start_s, stop_s) for activity, start_s, stop_s in spans],
    )
