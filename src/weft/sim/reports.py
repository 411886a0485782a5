"""What scripts report and save in virtual time: numbers of each worker, callables on the run's result model."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from weft.core.consensus import END, Consensus, Digests, Look
from weft.core.names import PARAMS, Buffer, NodeId
from weft.core.score import Score, best
from weft.core.seat import MINE, Replica, saved_alone
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.model_files import not_saved
from weft.sim.facts import Facts
from weft.sim.program import ReportDone, SaveAsked
from weft.store.result import ResultModel


class Reports(Protocol):
    """Where the driver takes what scripts report."""

    def remember(self, worker: NodeId, loss: float | None) -> None:
        """Note the training loss of a step."""
        ...

    def own_numbers(self, worker: NodeId, request: ReportDone) -> dict[str, float]:
        """The numbers that the worker's own peer is told."""
        ...

    def add(self, worker: NodeId, request: ReportDone, now_s: float, facts: Facts) -> None:
        """Keep a report."""
        ...

    def save(self, worker: NodeId, request: SaveAsked) -> None: ...

    def end(self, facts: Facts) -> None: ...


class NoReports:
    """For programs without a model."""

    def remember(self, worker: NodeId, loss: float | None) -> None:
        pass

    def own_numbers(self, worker: NodeId, request: ReportDone) -> dict[str, float]:
        return {}

    def add(self, worker: NodeId, request: ReportDone, now_s: float, facts: Facts) -> None:
        pass

    def save(self, worker: NodeId, request: SaveAsked) -> None:
        pass

    def end(self, facts: Facts) -> None:
        pass


class Evaluator(Protocol):
    """A program in whose worker environment a reported callable can be run."""

    def evaluate(self, function: Callable[[], Any]) -> float: ...


class ModelReports:
    """An epoch's report is complete when the last worker has made it: numbers are averaged over the
    workers, callables are run once, on the result model put into worker 0's model while they run.
    Evaluation takes no virtual time.

    Likewise a model is saved when the last worker asks for it; where, and which, is worker 0's word.
    What not everybody reported or saved is left to the end.
    """

    def __init__(
        self,
        programs: Sequence[Evaluator],
        replicas: Sequence[Replica],
        strategy: Strategy,
        world: World,
        centre: Callable[[Buffer], Any] | None = None,
        digests: Callable[[NodeId], Digests] | None = None,
    ) -> None:
        """`digests` gives those of a worker's replica now: where replicas are kept equal, they are compared."""
        self._digests = digests if strategy.keeps_replicas_equal and len(programs) > 1 else None
        self._consensus = Consensus(len(programs))
        self._num_reports = [0] * len(programs)
        self._programs = programs
        self._replicas = replicas
        self._scored = strategy.scored
        self._scores = [Score(strategy.score) for _ in programs]
        self._num_steps = [0] * len(programs)
        self._first_exchange = strategy.first_exchange
        self.result = ResultModel(strategy.result, world, replicas, self._best, centre, self._is_alone)
        self._open: dict[int, dict[NodeId, dict[str, Any]]] = {}
        self._saves: list[list[SaveAsked]] = [[] for _ in programs]
        """What each worker asked to save, as far as it is not saved."""
        self._not_saved: list[str] = []
        """Of what could not be, why."""

    def _best(self) -> NodeId:
        return best({worker: score.badness for worker, score in enumerate(self._scores)})

    def _is_alone(self) -> bool:
        return max(self._num_steps) < self._first_exchange

    def remember(self, worker: NodeId, loss: float | None) -> None:
        self._num_steps[worker] += 1
        self._scores[worker].remember(loss)

    def own_numbers(self, worker: NodeId, request: ReportDone) -> dict[str, float]:
        evaluate = self._programs[worker].evaluate
        numbers = {
            name: evaluate(value) if callable(value) else float(value)
            for name, value in request.numbers.items()
            if self._scored or not callable(value)
        }
        self._scores[worker].report(numbers)
        return numbers

    def add(self, worker: NodeId, request: ReportDone, now_s: float, facts: Facts) -> None:
        if self._digests is not None:
            self._consensus.take(worker, self._num_reports[worker], Look(facts.steps[worker], self._digests(worker)))
            self._num_reports[worker] += 1
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
        evaluated = any(callable(value) for value in reports[0].values())
        facts.report(epoch, now_s, numbers, self.result.consensus() if evaluated else None)

    def _on_result(self, function: Callable[[], Any]) -> float:
        replica = self._replicas[0]
        mine = [replica.array(PARAMS, bucket).copy() for bucket in range(len(replica.buckets))]
        models = list(self.result.models().values())
        try:
            return replica.run_as(models, lambda: self._programs[0].evaluate(function))
        finally:
            for bucket, array in enumerate(mine):
                replica.array(PARAMS, bucket)[:] = array

    def save(self, worker: NodeId, request: SaveAsked) -> None:
        if request.model == MINE:
            replica = self._replicas[worker]
            self._write(replica, request, saved_alone(replica, MINE))
            return
        self._saves[worker].append(request)
        if all(self._saves):
            first, *_ = [asked.pop(0) for asked in self._saves]
            self._write_result(first)

    def _write_result(self, request: SaveAsked) -> None:
        self._write(self._replicas[0], request, self.result.models(request.model))

    def _write(self, replica: Replica, request: SaveAsked, models: Mapping[str, Any]) -> None:
        try:
            replica.save(request.path, models, of=request.of, allow_nan=request.allow_nan)
        except OSError as error:  # no training ends because a disk is full
            self._not_saved.append(not_saved(request.path, error))

    def end(self, facts: Facts) -> None:
        for worker in range(len(self._programs) if self._digests is not None else 0):
            assert self._digests is not None
            self._consensus.take(worker, END, Look(facts.steps[worker], self._digests(worker)))
        for epoch in sorted(self._open):
            if 0 in self._open[epoch]:
                self._complete(epoch, facts.virtual_s, facts)
        for request in self._saves[0]:
            self._write_result(request)
        facts.not_saved = self._not_saved
