"""What stores of a checkpoint keep besides parameters: what codecs have left out, and states of outer optimizers."""

from collections.abc import Mapping, Sequence
from typing import Any

from weft.store.numpy import KEPT

Slots = Mapping[str, Mapping[int, Any]]
"""Arrays by slot and bucket."""


class KeptSlots:
    """With as many workers as the checkpoint has, each node goes on with its own.

    With others, each worker takes the mean of what was left out, so that the workers' mean gradient loses nothing and
    has nothing twice, and the first worker's state of outer optimizers; servers begin theirs anew.
    """

    def __init__(self, parts: Sequence[Mapping[str, Any]], rank: int, num_workers: int) -> None:
        """`parts` are what the members of the checkpoint had, in order."""
        self._parts = parts
        self._rank, self._num_workers = rank, num_workers

    def of(self, node: int, sizes: Sequence[int]) -> Slots:
        """What `node` goes on with; nothing of what does not fit its buckets, which have these sizes."""
        kept = self._worker() if node == self._rank else self._server(node - self._num_workers)
        return {slot: arrays for slot, arrays in kept.items() if _fits(arrays, sizes)}

    def _worker(self) -> Slots:
        workers = [part["worker"] for part in self._parts]
        if len(workers) == self._num_workers:
            mine: Slots = workers[self._rank]
            return mine
        slots = [slot for slot in workers[0] if slot.endswith(KEPT)]
        means = {slot: _mean([worker.get(slot, {}) for worker in workers]) for slot in slots}
        return {**workers[0], **means}

    def _server(self, number: int) -> Slots:
        if len(self._parts) != self._num_workers:
            return {}
        return next((part["servers"][number] for part in self._parts if number in part["servers"]), {})


def _mean(workers: Sequence[Mapping[int, Any]]) -> dict[int, Any]:
    return {b: sum(each[b] for each in workers if b in each) / len(workers) for b in workers[0]}


def _fits(arrays: Mapping[int, Any], sizes: Sequence[int]) -> bool:
    return all(bucket < len(sizes) and len(array) in (1, sizes[bucket]) for bucket, array in arrays.items())
