"""A model that is a ledger: what its numbers are says which gradients were applied, and with what weight.

The gradient of worker w at its step s is the unit vector of the pair (w, s), in every bucket, and the optimizer adds
it: so the parameters of any replica, however they came about, hold at (w, s) the weight of that contribution. The
first number is 1 from the start, in all replicas: the ground. Everything that is linear can be read off exactly.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.names import GRADIENT, PARAMS, Bucket, NodeId
from weft.sim.program import BackwardDone, ReportDone, Request, StepDone

Array = NDArray[np.float64]

GROUND = 0
STATE_ELEMENTS = 3
"""The size of a bucket that is not trained."""


@dataclass(frozen=True)
class Book:
    """How a ledger is laid out: a place for each step of each worker."""

    num_workers: int
    num_steps: int
    num_trained: int = 1
    has_state: bool = False

    @property
    def num_elements(self) -> int:
        return 1 + self.num_workers * self.num_steps

    def place(self, worker: NodeId, step: int) -> int:
        return 1 + worker * self.num_steps + step

    def contribution(self, place: int) -> tuple[NodeId, int]:
        """The (worker, step) of a place after the ground."""
        return divmod(place - 1, self.num_steps)

    def name(self, place: int) -> str:
        """What stands at a place."""
        return "the ground" if place == GROUND else "step {1} of worker {0}".format(*self.contribution(place))

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        trained = (Bucket(self.num_elements, 8),) * self.num_trained
        return trained + ((Bucket(STATE_ELEMENTS, 8, trainable=False),) if self.has_state else ())


class LedgerReplica:
    """A replica whose optimizer adds gradients as they are, times the scale."""

    def __init__(self, book: Book, *, is_empty: bool = False, params: Sequence[Array] | None = None) -> None:
        self.buckets = book.buckets
        self._arrays = {
            PARAMS: [np.zeros(kind.num_elements) for kind in self.buckets] if params is None else list(params),
            GRADIENT: [np.zeros(kind.num_elements) for kind in self.buckets],
        }
        if params is None and not is_empty:
            for array in self._arrays[PARAMS]:
                array[GROUND] = 1.0

    def array(self, slot: str, bucket: int) -> Array:
        return self._arrays[slot][bucket]

    @property
    def params(self) -> list[Array]:
        """The memory itself."""
        return self._arrays[PARAMS]

    def apply(self, gradients: Mapping[int, Any], scale: float, hyper: Any | None) -> None:
        for bucket, gradient in gradients.items():
            self._arrays[PARAMS][bucket] += scale * gradient

    def hyper(self) -> Any:
        return None


class LedgerProgram:
    """A worker's script: writes its contribution down, step after step, and reports now and then."""

    def __init__(
        self,
        worker: NodeId,
        replica: LedgerReplica,
        book: Book,
        samples: float,
        epoch_steps: int,
        num_steps: int,
        not_finite: frozenset[int],
        seed: int,
    ) -> None:
        self._requests = self._run(worker, replica, book, samples, epoch_steps, num_steps, not_finite, seed)

    def resume(self) -> Request | None:
        return next(self._requests, None)

    @staticmethod
    def _run(
        worker: NodeId,
        replica: LedgerReplica,
        book: Book,
        samples: float,
        epoch_steps: int,
        num_steps: int,
        not_finite: frozenset[int],
        seed: int,
    ) -> Generator[Request, None, None]:
        rng = Random(f"losses/{seed}/{worker}")
        trained = [bucket for bucket, kind in enumerate(replica.buckets) if kind.trainable]
        for step in range(num_steps):
            for bucket in trained:
                gradient = replica.array(GRADIENT, bucket)
                gradient[:] = 0.0
                gradient[book.place(worker, step)] = nan if step in not_finite else 1.0
            yield BackwardDone(samples)
            yield StepDone(samples, rng.random())
            if (step + 1) % epoch_steps == 0:
                yield ReportDone(step // epoch_steps, {"loss": rng.random()})
