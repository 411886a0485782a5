"""What scripts report in virtual time: numbers of each worker, callables on the run's result model."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from weft.core.names import PARAMS, NodeId
from weft.core.seat import Replica
from weft.sim.facts import Facts
from weft.sim.program import ReportDone
from weft.store.result import ResultModel


class Reports(Protocol):
    """Where the driver takes what scripts report."""

    def own_numbers(self, worker: NodeId, request: ReportDone) -> dict[str, float]:
        """The numbers that the worker's own peer is told."""
        ...

    def add(self, worker: NodeId, request: ReportDone, now_s: float, facts: Facts) -> None:
        """Keep a report."""
        ...

    def save(self, worker: NodeId, path: str) -> None: ...

    def end(self, facts: Facts) -> None: ...


class NoReports:
    """For programs without a model."""

    def own_numbers(self, worker: NodeId, request: ReportDone) -> dict[str, float]:
        return {}

    def add(self, worker: NodeId, request: ReportDone, now_s: float, facts: Facts) -> None:
        pass

    def save(self, worker: NodeId, path: str) -> None:
        pass

    def end(self, facts: Facts) -> None:
        pass


class Evaluator(Protocol):
    """A program in whose surroundings a reported callable can be run."""

    def evaluate(self, function: Callable[[], Any]) -> float: ...


class ModelReports:
    """An epoch's report is complete when the last worker has made it: numbers are averaged over the
    workers, callables are run once, on the result model put into worker 0's model while they run.
    Evaluation takes no virtual time.
    """

    def __init__(
        self, programs: Sequence[Evaluator], replicas: Sequence[Replica], result: ResultModel, *, scored: bool
    ) -> None:
        self._programs = programs
        self._replicas = replicas
        self._result = result
        self._scored = scored
        self._open: dict[int, dict[NodeId, dict[str, Any]]] = {}
        self._path: str | None = None

    def own_numbers(self, worker: NodeId, request: ReportDone) -> dict[str, float]:
        evaluate = self._programs[worker].evaluate
        return {
            name: evaluate(value) if callable(value) else float(value)
            for name, value in request.numbers.items()
            if self._scored or not callable(value)
        }

    def add(self, worker: NodeId, request: ReportDone, now_s: float, facts: Facts) -> None:
        self._open.setdefault(request.epoch, {}).setdefault(worker, {}).update(request.numbers)
        if len(self._open[request.epoch]) == len(self._programs):
            self._complete(request.epoch, now_s, facts)

    def _complete(self, epoch: int, now_s: float, facts: Facts) -> None:
        reports = self._open.pop(epoch)
        numbers: dict[str, float] = {}
        for name, value in reports[0].items():
            if callable(value):
                numbers[name] = self._on_result(value)
            else:
                told = [float(report[name]) for report in reports.values() if name in report]
                numbers[name] = sum(told) / len(told)
        facts.report(epoch, now_s, numbers)

    def _on_result(self, function: Callable[[], Any]) -> float:
        replica = self._replicas[0]
        buckets = range(len(replica.buckets))
        mine = [replica.array(PARAMS, bucket).copy() for bucket in buckets]
        self._put(self._result.arrays())
        try:
            return self._programs[0].evaluate(function)
        finally:
            self._put(mine)

    def _put(self, arrays: Sequence[Any]) -> None:
        for bucket, array in enumerate(arrays):
            self._replicas[0].array(PARAMS, bucket)[:] = array

    def save(self, worker: NodeId, path: str) -> None:
        if worker == 0:
            self._path = path

    def end(self, facts: Facts) -> None:
        for epoch in sorted(self._open):
            if 0 in self._open[epoch]:
                self._complete(epoch, facts.virtual_s, facts)
        if self._path is not None:
            self._replicas[0].save(self._path, self._result.arrays())
