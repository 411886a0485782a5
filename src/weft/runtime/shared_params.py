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

If a worker is lost, the lowest of the others finishes its stretch when they have committed: it undoes the piece that
was half updated (store/journal.py), goes on in the lost one's place, and writes that one's COMMITTED. The next
reduction, of the new view, is applied by the members of that view, each to a stretch by its place among them.

The fence makes earlier writes visible before the word. A worker that has seen the others' words reads their data
without a fence of its own: x86-64 does not reorder loads.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol
from zlib import crc32

import numpy as np

from weft.core.errors import ConfigError, Deadlock
from weft.runtime.reduce.shared import ENDED, NUMBER_BITS, READY
from weft.store.arena import Arena
from weft.store.journal import Journal, JournalOf
from weft.store.own_writes import same_bytes
from weft.transports.bells import Bells, fence

STEPPING, COMMITTED = 0, 1
"""Words of a worker's own line: the number of the reduction that it is applying, and of the last that it applied."""
WRITTEN = 3
"""Word of the same line: a digest of what the script has written to parameters since the last step; 0 if nothing."""
PARAMS = "params"


class JournaledReplica(Protocol):
    """A replica whose part of a shared update can be finished by another worker."""

    def journal_updates(self, journal: JournalOf) -> None: ...

    def begin_update(self) -> None: ...

    def respan(self, spans: Sequence[tuple[int, int]]) -> None: ...

    def finish_update(
        self,
        spans: Sequence[tuple[int, int]],
        journal: JournalOf,
        first: int,
        undo: Callable[[list[Any]], None] | None,
    ) -> None: ...


class SharedParams:
    """Runs this worker's part of a shared update. `wait` blocks until the condition it is given holds."""

    def __init__(
        self,
        arena: Arena,
        bells: Bells,
        wait: Callable[[Callable[[], bool]], None],
        views: Sequence[Any],
        name_of: Callable[[int, int], str],
        survivor: JournaledReplica | None = None,
    ) -> None:
        """`views` are the script's private views of the trained buckets; `name_of` finds the name of the tensor at an
        index of a bucket. `survivor` is the replica, if it can finish the update of a worker that is lost."""
        self._arena = arena
        self._bells = bells
        self._wait = wait
        self._trained = [bucket for bucket, kind in enumerate(arena.buckets) if kind.trainable]
        self._views = dict(zip(self._trained, views, strict=True))
        self._name_of = name_of
        self._workers: Sequence[int] = range(arena.num_workers)
        """The local ranks of the workers that make this update."""
        self._views_from: list[tuple[int, Sequence[int]]] = [(0, self._workers)]
        """(number, workers): who applies the reductions from this number on."""
        self._lost: set[int] = set()
        self._written: Sequence[int] = ()
        self.has_been_written = False
        """This worker's script has written to its parameters between two steps, and does so again, most likely."""
        self._survivor, self._journal = survivor, Journal(arena)
        if survivor is not None:
            survivor.journal_updates(JournalOf(self._journal, arena.local_rank))
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
        self._take_place(version)
        apart = [bucket for bucket in self._views if arena.was_written(PARAMS, bucket)]
        written = [bucket for bucket in apart if not same_bytes(self._views[bucket], arena.array(PARAMS, bucket))]
        arena.words[arena.worker_line(arena.local_rank) + WRITTEN] = self._digest(written)
        self._written, self.has_been_written = written, self.has_been_written or bool(written)
        self._journal.begin(arena.local_rank)
        if self._survivor is not None:
            self._survivor.begin_update()
        self._tell(STEPPING, version)
        self._take(written)
        apply()
        self._tell(COMMITTED, version)
        for bucket in apart:  # the script has written to no other since: it waits in this step
            self.num_copies += arena.refresh(PARAMS, bucket, self._views[bucket])

    def lose(self, lost: Sequence[int]) -> None:
        """The processes of these workers are dead: their stretches of the update under way are finished by another."""
        self._lost.update(self._arena.ranks.index(rank) for rank in lost)

    def change_members(self, members: Sequence[int], view: int) -> None:
        """The reductions of the new view are applied by its members."""
        workers = [self._arena.ranks.index(rank) for rank in members]
        self._lost.difference_update(workers)  # newcomers take the places of lost ones
        self._views_from.append((view << NUMBER_BITS, workers))

    def _take_place(self, version: int) -> None:
        """Be ready to update the stretch that is this worker's among those who apply this reduction."""
        workers = next(workers for first, workers in reversed(self._views_from) if version >= first)
        if workers is not self._workers:
            self._workers = workers
            assert self._survivor is not None
            self._survivor.respan(self._stretches(self._arena.local_rank))

    def _stretches(self, worker: int) -> list[tuple[int, int]]:
        """A worker's stretches of the trained buckets, in this update."""
        place, of = self._workers.index(worker), len(self._workers)
        return [self._arena.span(bucket, place, of) for bucket in self._trained]

    def _is_finished(self, lost: int, version: int) -> bool:
        """Whether a lost worker's stretch is updated. The lowest of the others does it when these have committed."""
        arena, journal = self._arena, self._journal
        line = arena.worker_line(lost)
        if arena.words[line + COMMITTED] >= version:
            return True
        living = [worker for worker in self._workers if worker not in self._lost]
        if arena.local_rank != living[0] or not all(self._has(worker, COMMITTED, version) for worker in living):
            return False
        assert self._survivor is not None
        if arena.words[line + STEPPING] < version:
            journal.begin(lost)
        spans, first, is_torn = self._stretches(lost), journal.reached(lost), journal.is_torn(lost)
        if not first and not is_torn:
            self._take_written(spans)
        undo = partial(journal.undo, lost) if is_torn else None
        fence()
        arena.words[line + STEPPING] = version
        self._survivor.finish_update(spans, JournalOf(journal, lost), first, undo)
        fence()
        arena.words[line + COMMITTED] = version
        self._bells.ring_scripts()
        return True

    def _has(self, worker: int, word: int, version: int) -> bool:
        return self._arena.words[self._arena.worker_line(worker) + word] >= version

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
        # a worker that was lost before it began this update has told only what it wrote before its last one
        begun = [worker for worker in self._workers if self._has(worker, STEPPING, self.version)]
        told = {arena.words[arena.worker_line(worker) + WRITTEN] for worker in begun}
        if written and len(told) > 1:
            raise self._refusal(written[0])
        self._take_written(self._stretches(arena.local_rank))

    def _take_written(self, spans: Sequence[tuple[int, int]]) -> None:
        stretches = dict(zip(self._trained, spans, strict=True))
        for bucket in self._written:
            start, stop = stretches[bucket]
            self._arena.array(PARAMS, bucket)[start:stop] = self._views[bucket][start:stop]

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
        if worker in self._lost:
            return word == STEPPING or self._is_finished(worker, version)
        has_gone_on = self._has_gone_on(worker, version)
        if self._has(worker, word, version):
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
        return [w for w in self._workers if w not in self._lost and not self._has(w, word, version)]

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
