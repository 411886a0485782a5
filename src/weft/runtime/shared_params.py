"""One copy of the parameters for all workers of a host: each updates its stretch, and all go on together.

A step is committed by one word of each worker. The update begins when everybody's script has left the
iteration that reads the parameters, and the next iteration when everybody has committed.
"""

from collections.abc import Callable

from weft.runtime.shared_reduce import READY
from weft.store.arena import Arena
from weft.transports.bells import Bells

STEPPING, COMMITTED = 0, 1
"""Words of a worker's own line: the number of the reduction whose step it makes, and has made."""


class SharedParams:
    """Brackets this worker's part of a shared update. `wait` returns when its condition holds."""

    def __init__(self, arena: Arena, bells: Bells, wait: Callable[[Callable[[], bool]], None]) -> None:
        self._arena = arena
        self._bells = bells
        self._wait = wait
        self._trained = [bucket for bucket, kind in enumerate(arena.buckets) if kind.trainable]
        self._workers = range(arena.num_workers)

    @property
    def version(self) -> int:
        """The reduction that the next step applies: steps that all skip leave gaps."""
        arena = self._arena
        return max(arena.words[arena.reduction_line(0, b, arena.rank) + READY] for b in self._trained)

    def update(self, apply: Callable[[], None]) -> None:
        """Run this worker's part of the update when all are ready for it; returns when all have done theirs."""
        version = self.version
        self._tell(STEPPING, version)
        apply()
        self._tell(COMMITTED, version)

    def _tell(self, word: int, version: int) -> None:
        self._arena.words[self._arena.worker_line(self._arena.rank) + word] = version
        self._bells.ring_scripts()
        self._wait(lambda: all(self._is_there(worker, word, version) for worker in self._workers))

    def _is_there(self, worker: int, word: int, version: int) -> bool:
        """Said so, or went on without this step: a script may skip one."""
        arena = self._arena
        return arena.words[arena.worker_line(worker) + word] >= version or any(
            arena.words[arena.reduction_line(0, bucket, worker) + READY] > version for bucket in self._trained
        )
