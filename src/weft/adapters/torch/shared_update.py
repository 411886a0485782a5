"""The update of parameters that all workers of a host share: each optimizer's work, by stretches."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.adapters.torch.bucket_layout import BucketLayout
from weft.adapters.torch.optimizers import Optimizers
from weft.adapters.torch.sliced import SlicedUpdate, UpdateJournal
from weft.core.seat import ReplicaMemory


class SharedUpdate:
    """Updates this worker's stretches with the optimizer that steps; those of a lost worker, if they are left to it."""

    def __init__(self, optimizers: Optimizers, flats: Sequence[BucketLayout], memory: ReplicaMemory) -> None:
        self._optimizers = optimizers
        self._sliced = [SlicedUpdate(optimizer, flats, memory) for optimizer in optimizers.all]
        self._applied: tuple[int, ...] | None = None
        """The buckets of this update; None: nothing was applied."""

    def begin_update(self) -> None:
        """An update begins, and no worker has touched anything yet."""
        self._applied = None
        for sliced in self._sliced:
            sliced.remember()

    def step(self, gradients: Mapping[int, Any]) -> None:
        """Update the buckets of `gradients`."""
        self._applied = tuple(gradients)
        self._sliced[self._optimizers.stepping].step(gradients)

    def journal_updates(self, journal: UpdateJournal) -> None:
        """Keep old values in `journal` during updates."""
        for sliced in self._sliced:
            sliced.journaled(journal)

    def respan(self, spans: Sequence[tuple[int, int]]) -> None:
        """Update these stretches from now on."""
        for sliced in self._sliced:
            sliced.respan(spans)

    def finish_update(
        self,
        spans: Sequence[tuple[int, int]],
        journal: UpdateJournal,
        first: int,
        undo: Callable[[list[Any]], None] | None,
    ) -> None:
        """Finish the last update of a lost worker's stretches, from piece `first` on. If there is an `undo`, it is
        called before that, with what is half updated of this piece. Nothing to do if nothing was applied."""
        if self._applied is None:
            return
        theirs = self._sliced[self._optimizers.stepping].of_lost(spans, journal, first)
        if undo is not None:
            undo(theirs.changing(first))
        theirs.finish(self._applied)
