"""The arena: memory that the workers of one host share, in a memfd, which has no name and is freed with the last one.

| region  | holds                                                        | written by                             |
|---------|--------------------------------------------------------------|----------------------------------------|
| words   | lines of 8 words (a cache line) of each worker: its own, its | the worker whose line it is            |
|         | listening words, its speeds, and one per lane and bucket     |                                        |
| params  | one copy of the parameters, if all replicas are kept equal   | each worker, its stretch; Hogwild: all |
| reduced | results: lane 0 of gradients, lane 1 of anything else        | each worker, its stretch; leaders, all |
| given   | per worker: its gradient                                     | that worker                            |
| staged  | per worker: its other contributions                          | that worker                            |
| state   | the optimizer's numbers for each element                     | each worker, its own stretch           |
| journal | per worker: old values of the stretch that it is updating    | that worker; if it is lost, another    |
| device  | what fake devices hold: per worker, and the sum              | that worker; the sum, by stretch       |

When each may be written and read is said in runtime/reduce/shared.py and runtime/shared_params.py. Lines and stretches
of different workers are on different cache lines. Pages that are never written take no memory, so regions that a
strategy does not use cost nothing.
"""

import mmap
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.names import Bucket
from weft.core.seat import ReplicaMemory
from weft.store.pages import WrittenPages

Array = NDArray[Any]

PAGE = mmap.PAGESIZE
LINE_WORDS = 8
LINE_BYTES = 8 * LINE_WORDS
STATE_ROWS = 8
"""State rows that an optimizer may use, for numbers per element and per tensor: Adam with amsgrad needs four."""

ALIGN_ELEMENTS = 32
"""Workers' stretches of a bucket begin at multiples of this, so that no two workers write to one cache line."""


VIEWED = ("params", "reduced.0")
"""Regions that scripts see, each through a private mapping."""


class PrivateView:
    """A region as a script sees it: a copy-on-write mapping (MAP_PRIVATE), so that what it writes stays its own."""

    def __init__(self, fd: int, start: int, num_bytes: int) -> None:
        self.memory = mmap.mmap(fd, num_bytes, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE, offset=start)
        self.written = WrittenPages(self.memory)


class Arena:
    """One worker's mapping of the arena; all workers compute the same layout."""

    def __init__(
        self,
        fd: int,
        local_rank: int,
        num_workers: int,
        buckets: Sequence[Bucket],
        *,
        has_devices: bool = False,
        ranks: Sequence[int] | None = None,
    ) -> None:
        """`local_rank` is this worker's number on its host; `ranks` are its workers, 0 to n - 1 if None."""
        self.local_rank = local_rank
        self.ranks = range(num_workers) if ranks is None else ranks
        self.num_workers = num_workers
        self.buckets = buckets
        self._starts, model_bytes = _page_starts([bucket.num_bytes for bucket in buckets])
        num_lines = 3 * num_workers + 2 * len(buckets) * num_workers
        words_bytes = _pages(num_lines * LINE_WORDS * 8)
        self._region = {
            name: words_bytes + index * model_bytes
            for index, name in enumerate(
                ["params", "reduced.0", "reduced.1"]
                + [f"given.{w}" for w in range(num_workers)]
                + [f"staged.{w}" for w in range(num_workers)]
                + [f"state.{k}" for k in range(STATE_ROWS)]
                + [f"device.{lane}.{w}" for lane in (0, 1) for w in range(num_workers + 1) if has_devices]
            )
        }
        self._journal_start = words_bytes + len(self._region) * model_bytes
        largest = max((bucket.num_bytes for bucket in buckets), default=0)
        self._journal_bytes = (1 + STATE_ROWS) * _pages(largest + LINE_BYTES)
        size = self._journal_start + num_workers * self._journal_bytes
        os.ftruncate(fd, size)
        self._shared = mmap.mmap(fd, size)
        self.words = memoryview(self._shared)[:words_bytes].cast("q")
        self.doubles = memoryview(self._shared)[:words_bytes].cast("B").cast("d")
        self._views = {name: PrivateView(fd, self._region[name], model_bytes) for name in VIEWED}
        self._arrays: dict[tuple[str, int], Array] = {}
        self._is_copied = {name: [not view.written.is_known] * len(buckets) for name, view in self._views.items()}

    def array(self, region: str, bucket: int) -> Array:
        """A bucket's memory in a region, shared with all workers."""
        array = self._arrays.get((region, bucket))
        if array is None:
            array = self._flat(self._shared, self._region[region] + self._starts[bucket], bucket)
            self._arrays[region, bucket] = array
        return array

    def _flat(self, memory: mmap.mmap, offset: int, bucket: int) -> Array:
        num_elements, itemsize, *_ = self.buckets[bucket]
        return np.frombuffer(memory, f"f{itemsize}", num_elements, offset)

    def journal(self, worker: int) -> Array:
        """Memory for the old values of a piece of a worker's stretch: parameters and all state rows; enough for a whole
        bucket, of which only what is used takes memory."""
        start = self._journal_start + worker * self._journal_bytes
        return np.frombuffer(self._shared, np.uint8, self._journal_bytes, start)

    def span(self, bucket: int, which: int, of: int | None = None) -> tuple[int, int]:
        """The stretch of a bucket that the worker `which` of `of` (all of the host, if None) sums and updates."""
        return stretch(self.buckets[bucket].num_elements, which, self.num_workers if of is None else of)

    def replica_memory(self, *, shares_params: bool, is_new: bool = False) -> ReplicaMemory:
        """The memory of a replica whose gradients are reduced here; its parameters are the shared ones or its own. A
        newcomer has no stretch yet."""
        buckets = range(len(self.buckets))
        trained = [bucket for bucket in buckets if self.buckets[bucket].trainable]
        given = [self.array(f"given.{self.local_rank}", bucket) for bucket in trained]
        for gradient in given if is_new else ():
            gradient[:] = 0  # its predecessor's may not have been finite, and gaps between tensors are never written
        seen = [self.view("reduced.0", bucket) for bucket in trained]
        if not shares_params:
            return ReplicaMemory([_own(bucket) for bucket in self.buckets], given, seen)
        params = [self.view("params", b) if b in trained else _own(self.buckets[b]) for b in buckets]
        master = [self.array("params", bucket) for bucket in trained]
        spans = [(0, 0) if is_new else self.span(bucket, self.local_rank) for bucket in trained]
        return ReplicaMemory(
            params, given, seen, spans, lambda k, bucket: self.array(f"state.{k}", bucket), master, is_under_way=is_new
        )

    def common_memory(self, *, is_new: bool = False) -> ReplicaMemory:
        """The memory of a replica whose trained parameters all workers write, without locks; all else is their own."""
        params = [self.array("params", b) if kind.trainable else _own(kind) for b, kind in enumerate(self.buckets)]
        gradient = [_own(kind) for kind in self.buckets if kind.trainable]
        return ReplicaMemory(params, gradient, gradient, is_under_way=is_new)

    def view(self, region: str, bucket: int) -> Array:
        """A bucket as this worker's script sees it: the shared memory, until the script writes to it."""
        return self._flat(self._views[region].memory, self._starts[bucket], bucket)

    def was_written(self, region: str, bucket: int) -> bool:
        """Whether the script has ever written to its view of a bucket: from then on the view must be copied.

        A page of the view that was never written shows the shared page. A script that writes once will do so again, and
        the first write to a private page is slow (a page fault and a copy), so pages are not given back.
        """
        is_copied = self._is_copied[region]
        if not is_copied[bucket]:
            start = self._starts[bucket]
            is_copied[bucket] = self._views[region].written.any(start, start + self.buckets[bucket].num_bytes)
        return is_copied[bucket]

    def refresh(self, region: str, bucket: int, view: Array) -> int:
        """Make a view show what is shared now; the number of copies that took, 0 or 1."""
        if not self.was_written(region, bucket):
            return 0
        np.copyto(view, self.array(region, bucket))
        return 1

    def worker_line(self, worker: int) -> int:
        """The index of the first word of a worker's own line: STEPPING, COMMITTED, ENDED, WRITTEN, REACHED, JOURNAL."""
        return 2 * worker * LINE_WORDS

    def sleeping_line(self, worker: int) -> int:
        """The index of a worker's listening words, one for each bell."""
        return (2 * worker + 1) * LINE_WORDS

    def reduction_line(self, lane: int, bucket: int, worker: int) -> int:
        """The index of a worker's line for the reductions of a bucket: READY, DONE, WEIGHT, ..."""
        return (3 * self.num_workers + (lane * len(self.buckets) + bucket) * self.num_workers + worker) * LINE_WORDS

    def speed_line(self, worker: int) -> int:
        """The index of a worker's line with the speeds of its sums and its device."""
        return (2 * self.num_workers + worker) * LINE_WORDS


def stretch(num_elements: int, which: int, of: int) -> tuple[int, int]:
    """Stretch `which` of `of` near-equal stretches, each on cache lines of its own, as (start, stop)."""
    cut = [num_elements * p // of // ALIGN_ELEMENTS * ALIGN_ELEMENTS for p in (which, which + 1)]
    return cut[0], num_elements if which == of - 1 else cut[1]


def _own(bucket: Bucket) -> Array:
    return np.zeros(bucket.num_elements, f"f{bucket.itemsize}")


def _pages(num_bytes: int) -> int:
    return -(-num_bytes // PAGE) * PAGE


def _page_starts(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Offsets of blocks of these sizes if each begins on a page of its own, and where the last one ends."""
    starts, end = [], 0
    for size in sizes:
        starts.append(end)
        end += _pages(size)
    return starts, end
