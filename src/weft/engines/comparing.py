"""A comparison under way: what has been run is kept in a file, so that an interrupted one can go on."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from weft import __version__
from weft.config.ways import Way
from weft.core.errors import ConfigError, WeftError
from weft.engines.machine import machine
from weft.observe.comparison import Comparison, Contender, Run, Setup, Target, WorkerFigures

Row = Mapping[str, Any]
"""The JSON of a run's outcome."""


class Interrupted(Exception):
    """Somebody has had enough: what has been run is kept."""


@dataclass(frozen=True)
class Heat:
    """One run of a comparison: the way with one of the seeds, and which of all runs it is."""

    way: Way
    seed: int
    number: int
    of: int
    left_s: float | None
    """About how long this and the other runs will take; None while none has ended."""

    def __str__(self) -> str:
        return f"{self.way.label}, seed {self.seed}"


class Race:
    """All runs of a comparison, one after another; `run` makes one of them and gives its outcome's JSON."""

    def __init__(
        self, setup: Setup, ways: Sequence[Way], file: Path, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._ways = ways
        self.file = file
        self._clock = clock
        self.target = setup.target
        self.comparison, self.has_runs = _begun(setup, ways, file)

    def run(self, run: Callable[[Heat], Row]) -> Comparison:
        """Make those runs that are lacking; a way that fails is left, and the others go on."""
        took_s: list[float] = []
        lacking = list(self._lacking())
        for place, (contender, way, seed) in enumerate(lacking):
            left = len(lacking) - place
            if contender.error is not None:
                continue
            left_s = left * sum(took_s) / len(took_s) if took_s else None
            total = len(self._ways) * len(self.comparison.setup.seeds)
            began_s = self._clock()
            try:
                row = run(Heat(way, seed, total - left + 1, total, left_s))
            except WeftError as error:
                contender.error = str(error)
            else:
                contender.runs.append(run_of(row, self.target))
            took_s.append(self._clock() - began_s)
            self._keep()
        return self.comparison

    def _lacking(self) -> Iterator[tuple[Contender, Way, int]]:
        """Seed by seed, so that an early look has something of every contender."""
        for seed in self.comparison.setup.seeds:
            for contender, way in zip(self.comparison.contenders, self._ways, strict=True):
                if not any(run.seed == seed for run in contender.runs):
                    yield contender, way, seed

    def _keep(self) -> None:
        """Write the file anew, whole: whoever reads it meanwhile, or after a crash, finds the old or the new one."""
        fresh = self.file.with_name(f".{self.file.name}.{os.getpid()}")
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(self.comparison), indent=1))
        fresh.replace(self.file)


def _begun(setup: Setup, ways: Sequence[Way], file: Path) -> tuple[Comparison, bool]:
    """The comparison with those runs that the file has of it, and whether there are any."""
    fingerprint = _fingerprint(setup)
    kept: dict[str, Contender] = {}
    if file.is_file():
        try:
            before = msgspec.json.decode(file.read_bytes(), type=Comparison)
        except msgspec.MsgspecError as error:
            raise ConfigError(
                f"'{file}' is not the file of a comparison, and would be overwritten: {error}.\n"
                "  Remove it, or give --report another name."
            ) from error
        if before.fingerprint == fingerprint:
            kept = {contender.label: contender for contender in before.contenders}
    contenders = [Contender(way.label, way.baseline is not None) for way in ways]
    for contender in contenders:
        if contender.label in kept:
            contender.runs = [run for run in kept[contender.label].runs if run.seed in setup.seeds]
    return Comparison(setup, contenders, fingerprint), any(contender.runs for contender in contenders)


def _fingerprint(setup: Setup) -> str:
    """Of all that figures depend on, but for the seeds: more of them, and more contenders, may be added."""
    place = machine()
    place.pop("date")
    same = msgspec.structs.replace(setup, seeds=[], command="", machine=place)
    parts = [__version__.encode(), msgspec.json.encode(same, order="sorted"), Path(setup.script).read_bytes()]
    if setup.cluster is not None and Path(setup.cluster).is_file():
        parts.append(Path(setup.cluster).read_bytes())
    return blake2b(b"\0".join(parts), digest_size=8).hexdigest()


def run_of(row: Row, target: Target | None) -> Run:
    """A run as a comparison keeps it, from the JSON of its outcome."""
    clock = "wall_s" if row["virtual_s"] is None else "virtual_s"
    reports = [_at(report, clock) for report in row["reports"]]
    curve = [_at(point, clock) for point in row["curve"]]
    reached = None if target is None else _reached(target, reports)
    spans = row["timeline"] or [[] for _ in row["per_worker"]]
    return Run(
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
    """With the time under one name, real or virtual."""
    return {"at_s": entry[clock], **{name: value for name, value in entry.items() if name != clock}}


def _reached(target: Target, reports: Sequence[Row]) -> float | None:
    for report in reports:
        number = report.get(target.name)
        if number is not None and target.is_reached_by(number):
            at_s: float = report["at_s"]
            return at_s
    return None


def _samples_at(curve: Sequence[Row], at_s: float) -> float | None:
    """How many samples all workers had been trained on at a time, as far as they had told."""
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
