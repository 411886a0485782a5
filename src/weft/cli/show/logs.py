"""What runs leave besides their figures, by option: traces, a log of JSON lines, scalars for TensorBoard."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from weft.cli.show.files import check_folder, check_writable
from weft.cli.show.screen import errors
from weft.core.errors import ConfigError, WeftError
from weft.engines.real.observer import Observer
from weft.engines.simulated.world_run import SimulationObserver
from weft.observe.logs.jsonl import JsonLog
from weft.observe.logs.tensorboard import TensorBoardLog
from weft.observe.logs.trace import ENDINGS, write_trace
from weft.observe.records.moments import Count, Log, Moments
from weft.observe.records.status import Status
from weft.observe.records.stragglers import Blame
from weft.observe.records.timeline import let_go
from weft.observe.records.tracks import Tracks
from weft.sim.facts import Facts

EVERY_S = 1.0
"""How often a real run's status is logged; that of a simulated one is when all workers have made a step on average."""

SUMMARY = (
    "workers", "seed", "steps", "samples", "samples_per_s", "waiting_fraction", "bytes_sent", "staleness_mean",
    "staleness_max", "consensus", "final",
)  # fmt: skip
"""What the last line of a run says of its outcome."""


@dataclass
class Logs:
    """All that a verb was asked to write about its runs; used inside `with`, before anything starts.

    A log that cannot be written any more is told of once and then left alone: no run ends because of it.
    """

    trace: Path | None = None
    log: Path | None = None
    tensorboard: Path | None = None

    def __enter__(self) -> "Logs":
        if self.trace is not None and not self.trace.name.endswith(ENDINGS):
            raise ConfigError(
                f"--set write.trace got '{self.trace}', but a trace is a file that ends in .json or .json.gz.\n"
                f"  Write e.g. --set write.trace={self.trace.with_suffix('.json')}."
            )
        check_writable(self.trace)
        check_writable(self.log)
        check_folder(self.tensorboard)
        self._file: BinaryIO | None = None if self.log is None else self.log.open("wb")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._file is not None:
            try:
                self._file.close()
            except OSError as error:
                self._lose(JsonLog, error)

    def _lose(self, kind: type[Log], error: OSError) -> None:
        """Go on without a log, in this run and those after it."""
        if kind is JsonLog:
            option, path, file, self._file = "write.log", self.log, self._file, None
            if file is not None:
                with suppress(OSError):  # what could not be written before cannot be written now
                    file.close()
        else:
            option, path, self.tensorboard = "write.tensorboard", self.tensorboard, None
        if path is not None:
            why = error.strerror or str(error)
            errors.print(f"{option}={path} cannot be written: {why}; the run goes on without it", markup=False)

    @contextmanager
    def run(
        self, label: str, num_workers: int, number: int, of: int, *, is_real: bool, counts_messages: bool = True
    ) -> Iterator["RunLogs"]:
        """The logs of one run of several; what it fails with is logged, too."""
        logs: list[Log] = []
        if self._file is not None:
            logs.append(JsonLog(self._file, label))
        if self.tensorboard is not None:
            try:
                logs.append(TensorBoardLog(_fresh(self.tensorboard, label), time.time() if is_real else 0.0))
            except OSError as error:
                self._lose(TensorBoardLog, error)
        moments = Moments(num_workers, counts_messages=counts_messages)
        trace = None if self.trace is None else numbered(self.trace, number, of)
        run = RunLogs(logs, self._lose, num_workers, moments, trace)
        run.each(lambda log: log.begin({"workers": num_workers, "simulated": not is_real}))
        try:
            yield run
        except WeftError as error:
            run.remark("failed", str(error))
            raise
        finally:
            run.each(lambda log: log.close())


class RunLogs:
    """One run on its way into its logs."""

    def __init__(
        self,
        logs: list[Log],
        on_lost: Callable[[type[Log], OSError], None],
        num_workers: int,
        moments: Moments,
        trace: Path | None,
    ) -> None:
        self._logs = logs
        self._on_lost = on_lost
        self._num_workers = num_workers
        self._trace = trace
        self._moments = moments
        self._statuses: dict[int, Status] = {}
        self._num_reports = 0
        self._at_s, self._step = 0.0, 0

    def each(self, write: Callable[[Log], None]) -> None:
        """Write something into every log; one that cannot take it gets nothing more."""
        for log in tuple(self._logs):
            self._try(log, write)

    def _try(self, log: Log, write: Callable[[Log], None]) -> None:
        try:
            write(log)
        except OSError as error:
            self._logs.remove(log)
            with suppress(OSError):  # closing writes what is left, which fails once more
                log.close()
            self._on_lost(type(log), error)

    def watching(self, observer: Observer) -> Observer:
        """One that looks on a real run with the same eyes, and writes down what it sees."""
        if not self._logs:
            return observer

        def on_status(status: Status) -> None:
            observer.on_status(status)
            self._take_status(status)

        def on_reported(report: Mapping[str, float | None]) -> None:
            observer.on_reported(report)
            self._report(report, "wall_s")

        def on_tell(text: str) -> None:
            observer.on_tell(text)
            self.remark("told", text)

        def on_blame(blame: Blame) -> None:
            observer.on_blame(blame)
            self.remark("blame", str(blame))

        return replace(observer, on_status=on_status, on_reported=on_reported, on_tell=on_tell, on_blame=on_blame)

    def watching_simulated(self, observer: SimulationObserver) -> SimulationObserver:
        """One that looks on a simulated run with the same eyes, and writes down what it sees."""
        if not self._logs:
            return observer

        def on_step(facts: Facts, now_s: float) -> None:
            if observer.on_step is not None:
                observer.on_step(facts, now_s)
            self._take_facts(facts, now_s)

        return replace(observer, on_step=on_step)

    def _take_status(self, status: Status) -> None:
        self._statuses[status.rank] = status
        self._at_s = max(self._at_s, status.time_s)
        if len(self._statuses) == self._num_workers:
            self._step = sum(each.step for each in self._statuses.values()) // self._num_workers
            if self._at_s - self._moments.at_s >= EVERY_S:
                self._log_statuses()

    def _log_statuses(self) -> None:
        told = [self._statuses[rank] for rank in sorted(self._statuses)]
        losses = [status.loss for status in told if status.loss is not None]
        counts = [Count(status.step, status.samples, status.waiting_s, status.bytes_sent) for status in told]
        staleness = sum(status.staleness_mean for status in told) / len(told)
        self._log_moment(self._at_s, counts, sum(losses) / len(losses) if losses else None, staleness)

    def _take_facts(self, facts: Facts, now_s: float) -> None:
        self._at_s = now_s
        for report in facts.reports[self._num_reports :]:
            self._report(report, "virtual_s")
        if facts.num_steps % self._num_workers == 0:
            losses = [loss for _, _, loss in facts.losses[-self._num_workers :]]
            counts = [
                Count(step, samples, now_s - computing_s, num_bytes)
                for step, samples, computing_s, num_bytes in zip(
                    facts.steps, facts.samples_of, facts.compute_s, facts.bytes_from, strict=True
                )
            ]
            self._log_moment(now_s, counts, sum(losses) / len(losses) if losses else None, facts.staleness_mean)

    def _log_moment(self, at_s: float, counts: list[Count], loss: float | None, staleness_mean: float) -> None:
        moment = self._moments.make(at_s, counts, loss, staleness_mean)
        self._step = moment.step
        self.each(lambda log: log.moment(moment))

    def _report(self, report: Mapping[str, float | None], clock: str) -> None:
        """Log a report, as outcomes have it."""
        self._num_reports += 1
        known = dict(report)
        at_s, epoch, consensus = known.pop(clock), known.pop("epoch"), known.pop("consensus")
        assert at_s is not None
        assert epoch is not None
        self.each(lambda log: log.report(at_s, self._step, int(epoch), known, consensus))

    def remark(self, event: str, text: str) -> None:
        """Log something in words."""
        self.each(lambda log: log.remark(self._at_s, event, text))

    def end(self, row: Mapping[str, Any], tracks: Tracks | None) -> None:
        """The run is over, and its outcome's JSON is known."""
        clock = "wall_s" if row["virtual_s"] is None else "virtual_s"
        passed_s = self._at_s - self._moments.at_s
        if len(self._statuses) == self._num_workers and (not self._moments.at_s or passed_s >= EVERY_S / 2):
            self._log_statuses()
        for report in row["reports"][self._num_reports :]:
            self._report(report, clock)
        self.each(lambda log: log.end(row[clock], {name: row[name] for name in SUMMARY}))
        if self._trace is not None and tracks is not None:
            about = {"strategy": row["strategy"], "workers": row["workers"], "seed": row["seed"], "clock": clock}
            said = _traced(self._trace, tracks, about)
            errors.print(f"trace of {row['strategy']}: {self._trace}{said}", markup=False)
            let_go(tracks)


def _traced(path: Path, tracks: Tracks, about: Mapping[str, Any]) -> str:
    """Write a trace and say what it is for, or why there is none: the run itself went well."""
    try:
        write_trace(path, tracks, about)
    except OSError as error:
        return f" cannot be written: {error.strerror or error}; the run's figures are not touched by that"
    lack = f"; {tracks.num_dropped:,} records of its end are lacking" if tracks.num_dropped else ""
    return f", for ui.perfetto.dev{lack}"


def numbered(path: Path, number: int, of: int) -> Path:
    """The file of one run of several: trace.2.json."""
    if of == 1:
        return path
    ending = next(ending for ending in reversed(ENDINGS) if path.name.endswith(ending))
    return path.with_name(f"{path.name.removesuffix(ending)}.{number}{ending}")


def _fresh(folder: Path, label: str) -> Path:
    """A folder for one run, which none had before: curves of two runs would be drawn as one."""
    name = label.replace("/", "_")
    names = (name if number == 1 else f"{name} ({number})" for number in range(1, 10_000))
    return next(folder / each for each in names if not (folder / each).exists())
