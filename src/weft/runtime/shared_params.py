"""Shared parameters: one copy for all workers of a host. In each step, every worker updates its own stretch of it.

A script sees the parameters through a private (copy-on-write) view. What it writes there (averaged weights for an
evaluation, weight decay by hand) stays private until its next step. In that step, if digests show
that all scripts wrote the same, each worker copies its stretch of its view to `params`; else it raises ConfigError.

Each worker writes only its own line of words, and its own stretch of `params`:

| order | this worker writes                     | and goes on when                                                 |
|-------|----------------------------------------|------------------------------------------------------------------|
| 1     | WRITTEN: digest of its script's writes |                                                                  |
| 2     | STEPPING = version, after a fence      | all STEPPING >= version: no script reads the parameters any more |
| 3     | its stretch of `params`                |                                                                  |
| 4     | COMMITTED = version, after a fence     | all COMMITTED >= version: all stretches are updated              |

The fence makes earlier writes visible before the word. A worker that has seen the others' words reads their data
without a fence of its own: x86-64 does not reorder loads.
"""

from collections.abc import Callable, Sequence
from typing import Any
from zlib import crc32

import numpy as np

from weft.core.errors import ConfigError, Deadlock
from weft.runtime.reduce.shared import ENDED, READY
from weft.store.arena import Arena
from weft.store.own_writes import same_bytes
from weft.transports.bells import Bells, fence

STEPPING, COMMITTED = 0, 1
"""Words of a worker's own line: the number of the reduction that it is applying, and of the last that it applied."""
WRITTEN = 3
"""Word of the same line: a digest of what the script has written to parameters since the last step; 0 if nothing."""
PARAMS = "params"


class SharedParams:
    """Runs this worker's part of a shared update. `wait` blocks until the condition it is given holds."""

    def __init__(
        self,
        arena: Arena,
        bells: Bells,
        wait: Callable[[Callable[[], bool]], None],
        views: Sequence[Any],
        name_of: Callable[[int, int], str],
    ) -> None:
        """`views` are the script's private views of the trained buckets; `name_of` finds the name of the tensor at an
        index of a bucket."""
        self._arena = arena
        self._bells = bells
        self._wait = wait
        self._trained = [bucket for bucket, kind in enumerate(arena.buckets) if kind.trainable]
        self._views = dict(zip(self._trained, views, strict=True))
        self._name_of = name_of
        self._workers = range(arena.num_workers)
        self._awaited: tuple[int, int] | None = None
        """The word of the other workers, and its value, that this worker waits for."""
        self.num_copies = 0

    @property
    def version(self) -> int:
        """The number of the reduction that the next step applies. It has gaps where all workers skipped a step."""
        arena = self._arena
        return max(arena.words[arena.reduction_line(0, b, arena.local_rank) + READY] for b in self._trained)

    def update(self, apply: Callable[[], None]) -> None:
        """Run `apply`, which updates this worker's stretch, once no worker's script reads the parameters any more.

        Blocks until all workers have updated their stretches; then refreshes the script's views.
        """
        arena, version = self._arena, self.version
        written = [bucket for bucket, view in self._views.items() if self._differs(bucket, view)]
        arena.words[arena.worker_line(arena.local_rank) + WRITTEN] = self._digest(written)
        self._tell(STEPPING, version)
        self._take(written)
        apply()
        self._tell(COMMITTED, version)
        for bucket, view in self._views.items():
            self.num_copies += arena.refresh(PARAMS, bucket, view)

    def _differs(self, bucket: int, view: Any) -> bool:
        """Whether the script has changed its view of a bucket."""
        return self._arena.was_written(PARAMS, bucket) and not same_bytes(view, self._arena.array(PARAMS, bucket))

    def _digest(self, written: Sequence[int]) -> int:
        """A digest of all buckets that the script has written; 0 if it has written nothing."""
        digest = 0
        for bucket in written:
            digest = crc32(self._views[bucket], crc32(str(bucket).encode(), digest))
        return digest + 1 if written else 0

    def _take(self, written: Sequence[int]) -> None:
        """Copy its script's writes, within this worker's stretch, to `params`; ConfigError if not all wrote the same.

        No other worker reads the stretch before all have committed.
        """
        arena = self._arena
        told = {arena.words[arena.worker_line(worker) + WRITTEN] for worker in self._workers}
        if written and len(told) > 1:
            raise self._refusal(written[0])
        for bucket in written:
            start, stop = arena.span(bucket, arena.local_rank)
            arena.array(PARAMS, bucket)[start:stop] = self._views[bucket][start:stop]

    def _refusal(self, bucket: int) -> ConfigError:
        view, shared = self._views[bucket], self._arena.array(PARAMS, bucket)
        element = int(np.flatnonzero(view.view(f"i{view.itemsize}") != shared.view(f"i{view.itemsize}"))[0])
        rank = self._arena.ranks[self._arena.local_rank]
        return ConfigError(
            f"worker {rank} has written to '{self._name_of(bucket, element)}' between two steps what other workers "
            "have not, so their parameters would differ.\n"
            "  Write the same on every worker, or under a strategy where each has a replica of its own: gossip."
        )

    def _tell(self, word: int, version: int) -> None:
        fence()
        self._arena.words[self._arena.worker_line(self._arena.local_rank) + word] = version
        self._bells.ring_scripts()
        self._awaited = word, version
        self._wait(lambda: all(self._is_there(worker, word, version) for worker in self._workers))
        self._awaited = None

    def _is_there(self, worker: int, word: int, version: int) -> bool:
        # A worker writes `word` before it gives to the next reduction. So READY of the next reduction is read first: if
        # it is set and `word`, read later, is not, the worker has skipped the step. In the other order, it could write
        # both between the two reads, and would seem to have skipped the step.
        has_gone_on = self._has_gone_on(worker, version)
        if self._arena.words[self._arena.worker_line(worker) + word] >= version:
            return True
        if has_gone_on:
            ranks, me = self._arena.ranks, self._arena.local_rank
            raise ConfigError(
                f"worker {ranks[worker]} skipped a step that worker {ranks[me]} makes, so their parameters would "
                "differ.\n  Skip a step on all workers or on none: a test on the reduced gradient is the same for all."
            )
        return False

    def _has_gone_on(self, worker: int, version: int) -> bool:
        arena = self._arena
        return any(arena.words[arena.reduction_line(0, bucket, worker) + READY] > version for bucket in self._trained)

    def waits_for(self) -> list[int]:
        """The ranks of the workers for which the update waits; empty if it does not wait."""
        return [self._arena.ranks[local_rank] for local_rank in self._late()]

    def _late(self) -> list[int]:
        """The local ranks of the workers for which the update waits."""
        if self._awaited is None:
            return []
        word, version = self._awaited
        return [w for w in self._workers if self._arena.words[self._arena.worker_line(w) + word] < version]

    def check_alive(self) -> None:
        """Raise Deadlock when the update waits for a worker whose script has ended."""
        words, line = self._arena.words, self._arena.worker_line
        ended = [worker for worker in self._workers if words[line(worker) + ENDED]]
        for worker in self._late():  # read after ENDED: a worker may commit and end between the two reads
            if worker in ended:
                rank = self._arena.ranks[worker]
                raise Deadlock(
                    f"the update of the parameters waits for worker {rank}, whose script has ended.\n"
                    "  Let every worker make the same number of steps, e.g. with worker.share(...)."
                )
