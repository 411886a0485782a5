"""A seat that reads models of a run under way: the run's result, this worker's replica, and their digests."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from weft.core.names import PARAMS, Buffer, Result
from weft.core.seat import RESULT
from weft.runtime.seats.driving_seat import DrivingSeat
from weft.runtime.seats.evaluating import evaluating


class ResultSeat(DrivingSeat):
    """Where replicas are equal, the result is this worker's own; else parameters are fetched from other processes."""

    @property
    def result_kind(self) -> Result:
        return self._runtime.strategy.result

    def result_values(self) -> Sequence[Any]:
        """The values of the buckets of the run's result, or of this replica if that is no single model."""
        if self.result_kind in (Result.REPLICA, Result.ENSEMBLE):
            return self.own_values()
        return next(iter(self._models(RESULT).values()))

    def own_values(self) -> list[Any]:
        """The values of the buckets of this replica, with what has come while the script computed."""
        store = self._runtime.worker.store
        return [store.lend(Buffer(PARAMS, bucket)) for bucket in range(len(self._runtime.world.buckets))]

    def servers_here(self) -> list[Any]:
        """The replicas of the servers of this process."""
        nodes, num_workers = self._runtime.driver.nodes, self._runtime.world.num_workers
        return [node.store.replica for id, node in nodes.items() if id >= num_workers]

    def to_keep(self) -> dict[str, Any]:
        """What the worker, and the servers of this process by number, must have besides to go on from a checkpoint."""
        nodes, num_workers = self._runtime.driver.nodes, self._runtime.world.num_workers
        servers = {id - num_workers: node.store.to_keep() for id, node in nodes.items() if id >= num_workers}
        return {"worker": self._runtime.worker.store.to_keep(), "servers": servers}

    def _digests(self) -> dict[str, int]:
        if self.num_workers == 1 or not self._runtime.strategy.keeps_replicas_equal:
            return {}
        with self._lock:
            return self._runtime.worker.store.digests()

    def _sketches(self) -> dict[str, list[float]]:
        with self._lock:
            return self._runtime.worker.store.sketches()

    @property
    def _distance(self) -> float | None:
        return 0.0 if self._runtime.strategy.shares_replica else super()._distance

    def _on_result(self, functions: Mapping[str, Callable[[], float]]) -> tuple[dict[str, float], float | None]:
        if self._runtime.strategy.result is Result.REPLICA:
            with self._evaluating():
                return super()._on_result(functions)
        with self._driving() as runtime:
            result = runtime.result(self._wait, self._best)
            models, consensus = list(result.models(RESULT).values()), result.consensus()
        with self._evaluating(lends_model=True):
            return {name: self._replica.run_as(models, function) for name, function in functions.items()}, consensus

    def _evaluating(self, *, lends_model: bool = False) -> AbstractContextManager[None]:
        return evaluating(self._runtime.worker.store, self.script, self._lock, lends_model=lends_model)

    def _models(self, model: str) -> Mapping[str, Sequence[Any]]:
        if self._runtime.strategy.result is Result.REPLICA:
            return super()._models(model)
        with self._driving() as runtime:
            return runtime.result(self._wait, self._best).models(model)

    def _write(self, path: str, models: Mapping[str, Sequence[Any]], of: int | None, *, allow_nan: bool) -> None:
        with self._lock:
            super()._write(path, models, of, allow_nan=allow_nan)
