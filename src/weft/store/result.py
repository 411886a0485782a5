"""The model that a run results in, and how far the replicas are from one another."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from weft.core.names import CENTRE, PARAMS, Buffer, NodeId, Result, member
from weft.core.seat import RESULT
from weft.core.world import World
from weft.store.reduction import reduce_arrays

Array = NDArray[Any]


class HasArrays(Protocol):
    """A replica, or a copy of one."""

    def array(self, slot: str, bucket: int) -> Any: ...


class ResultModel:
    """Looks at all replicas of a run; changes none. `best` says which worker is the best one now, and `centre`
    lends what a worker keeps of the centre between them. While workers are alone, before their first exchange,
    servers and a centre hold what all began with: then the mean of the replicas is the result. `workers` are those
    whose replicas count: all, if None."""

    def __init__(
        self,
        which: Result,
        world: World,
        replicas: Sequence[HasArrays],
        best: Callable[[], NodeId] = lambda: 0,
        centre: Callable[[Buffer], Array] | None = None,
        is_alone: Callable[[], bool] = lambda: False,
        workers: Sequence[NodeId] | None = None,
    ) -> None:
        self._which = which
        self._world = world
        self._replicas = replicas
        self._best = best
        self._centre = centre
        self._is_alone = is_alone
        self._members = world.workers if workers is None else workers

    def models(self, model: str = RESULT) -> dict[str, list[Array]]:
        """Copies of what a word for a model stands for, bucket by bucket: one model, or the members of an ensemble.

        Each is named by what the names of its tensors shall begin with in a file.
        """
        which = self._which if model == RESULT else Result(model)
        if which is Result.ENSEMBLE:
            return {member(worker): self._copy(worker) for worker in self._members}
        if self._which is Result.REPLICA:
            return {"": self._copy(0)}
        if which is Result.BEST:
            return {"": self._copy(self._best())}
        if which in (Result.SERVERS, Result.CENTRE) and self._is_alone():
            which = Result.MEAN
        return {"": [self._array(which, bucket) for bucket in range(len(self._world.buckets))]}

    def _copy(self, worker: NodeId) -> list[Array]:
        replica = self._replicas[worker]
        return [np.array(replica.array(PARAMS, bucket)) for bucket in range(len(self._world.buckets))]

    def _array(self, which: Result, bucket: int) -> Array:
        if which is Result.SERVERS and bucket in self._world.trainable:
            return np.array(self._replicas[self._world.server_of(bucket)].array(PARAMS, bucket))
        if which is Result.CENTRE and bucket in self._world.trainable:
            assert self._centre is not None
            return np.array(self._centre(Buffer(CENTRE, bucket)))
        workers = self._workers(bucket)
        return reduce_arrays(workers, [1.0] * len(workers), "mean")

    def _workers(self, bucket: int) -> list[Array]:
        return [self._replicas[worker].array(PARAMS, bucket) for worker in self._members]

    def consensus(self) -> float:
        """Root mean square distance of the workers' replicas from their mean, relative to the mean's norm."""
        distance, norm = 0.0, 0.0
        for bucket in self._world.trainable:
            workers = self._workers(bucket)
            if all(np.array_equal(worker, workers[0]) for worker in workers[1:]):
                norm += float(np.sum(np.square(workers[0], dtype=np.float64)))
                continue
            mean: Array = np.asarray(np.mean(workers, axis=0, dtype=np.float64))
            norm += float(np.sum(mean**2))
            distance += sum(float(np.sum((worker - mean) ** 2)) for worker in workers) / len(workers)
        return float(np.sqrt(distance / norm)) if norm else 0.0
