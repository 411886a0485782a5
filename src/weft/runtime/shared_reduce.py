"""Reduce on one host: every worker sums its stretch of all contributions where they lie.

A reduction of a bucket has three states, told in words that only their worker writes:
    given    my contribution is in place         (the word `ready` has the number of the reduction)
    summed   my stretch of the result is there   (the word `done` has it)
    ended    everybody's stretch is there
Nobody waits here: `progress` does what can be done and is called again when something may have changed.

A result stays whole until all have given to the bucket's next reduction, which nobody does before it has
used this one; a contribution stays whole until everybody has summed it.
"""

from collections.abc import Callable
from zlib import crc32

from weft.core.actions import OPS, Reduce
from weft.core.errors import Deadlock, IllegalAction
from weft.core.events import Reduced
from weft.core.names import GRADIENT, Buffer
from weft.store.arena import Arena
from weft.store.numpy import NumpyStore
from weft.store.reduction import reduce_into
from weft.transports.bells import Bells

READY, DONE, WEIGHT, CLOCK, KIND = range(5)
"""Words of a worker's line for a bucket."""
ENDED = 2
"""The word of a worker's own line that says that its script has ended."""


class Open:
    """One reduction under way."""

    __slots__ = ("action", "is_summed", "lane", "lines", "number", "weights")

    def __init__(self, action: Reduce, lane: int, number: int, lines: list[int]) -> None:
        self.action = action
        self.lane = lane
        self.number = number
        self.lines = lines
        self.is_summed = False
        self.weights: list[float] = []


class SharedReduce:
    """This worker's part in all reductions of the host's workers."""

    def __init__(self, arena: Arena, bells: Bells, store: NumpyStore, *, gradient_is_given: bool) -> None:
        self._arena = arena
        self._bells = bells
        self._store = store
        self._gradient_is_given = gradient_is_given
        """Gradients are reduced from where backward put them; everything else is staged first."""
        self._words = arena.words
        self._numbers: dict[tuple[int, int], int] = {}
        self._open: list[Open] = []
        self.bytes_shared = 0
        self.num_copies = 0

    def join(self, action: Reduce) -> None:
        """Bring this worker's contribution."""
        arena, bucket, lane = self._arena, action.buffer.bucket, self._lane(action.buffer)
        if action.group != tuple(range(arena.num_workers)) or action.op not in OPS or action.weight < 0:
            raise IllegalAction(f"{action} must name all workers, an op of {OPS} and a weight of at least 0.")
        if action.buffer.part is not None or any(
            (o.lane, o.action.buffer.bucket) == (lane, bucket) for o in self._open
        ):
            raise IllegalAction(f"{action} came while a reduction of its bucket was under way, or names a part of one.")
        if lane:
            arena.array(f"staged.{arena.rank}", bucket)[:] = self._store.capture(action.buffer)
            self.num_copies += 1
        number = self._numbers[lane, bucket] = self._numbers.get((lane, bucket), 0) + 1
        lines = [arena.reduction_line(lane, bucket, worker) for worker in range(arena.num_workers)]
        mine = lines[arena.rank]
        arena.doubles[mine + WEIGHT] = action.weight
        self._words[mine + CLOCK] = action.clock
        self._words[mine + KIND] = crc32(f"{action.kind}/{action.op}/{action.buffer.slot}".encode())
        self._words[mine + READY] = number
        self._open.append(Open(action, lane, number, lines))
        self._bells.ring_scripts()

    def _lane(self, buffer: Buffer) -> int:
        return 0 if buffer.slot == GRADIENT and self._gradient_is_given else 1

    def progress(self, deliver: Callable[[Reduced], None]) -> bool:
        """Sum what all have given; hand over what all have summed. True if anything was done."""
        if not self._open:
            return False
        moved = False
        for reduction in list(self._open):
            if not reduction.is_summed and self._all_have(reduction, READY):
                self._sum(reduction)
                moved = True
            if reduction.is_summed and self._all_have(reduction, DONE):
                self._open.remove(reduction)
                deliver(self._end(reduction))
                moved = True
        return moved

    def _all_have(self, reduction: Open, word: int) -> bool:
        words, number = self._words, reduction.number
        return all(words[line + word] >= number for line in reduction.lines)

    def _sum(self, reduction: Open) -> None:
        arena, action, rank = self._arena, reduction.action, self._arena.rank
        self._check_alike(reduction)
        reduction.weights = [arena.doubles[line + WEIGHT] for line in reduction.lines]
        start, stop = arena.span(action.buffer.bucket, rank)
        if any(reduction.weights) and start < stop:
            region = "staged" if reduction.lane else "given"
            arrays = [arena.array(f"{region}.{w}", action.buffer.bucket)[start:stop] for w in range(arena.num_workers)]
            total = arena.array(f"reduced.{reduction.lane}", action.buffer.bucket)[start:stop]
            reduce_into(total, arrays, reduction.weights, action.op)
            self.bytes_shared += total.nbytes * arena.num_workers
        reduction.is_summed = True
        self._words[reduction.lines[rank] + DONE] = reduction.number
        self._bells.ring_scripts()

    def _check_alike(self, reduction: Open) -> None:
        mine = reduction.lines[self._arena.rank]
        for worker, line in enumerate(reduction.lines):
            if (
                self._words[line + CLOCK] != self._words[mine + CLOCK]
                or self._words[line + KIND] != self._words[mine + KIND]
            ):
                raise IllegalAction(
                    f"{reduction.action} met another reduction of its bucket on worker {worker}, "
                    f"at clock {self._words[line + CLOCK]}."
                )

    def _end(self, reduction: Open) -> Reduced:
        action = reduction.action
        bucket, weight = action.buffer.bucket, sum(reduction.weights)
        if reduction.lane:
            if weight:
                self._store.write(action.buffer, self._arena.array("reduced.1", bucket))
        else:
            seen = self._store.replica.array(GRADIENT, bucket)
            if weight:
                self.num_copies += self._arena.refresh_seen(bucket, seen)
            else:
                seen[:] = self._arena.array(f"given.{self._arena.rank}", bucket)
        return Reduced(action.clock, action.buffer, weight)

    def check_alive(self) -> None:
        """Raise Deadlock when a reduction waits for a worker whose script has ended."""
        for reduction in self._open:
            for worker, line in enumerate(reduction.lines):
                has_ended = self._words[self._arena.worker_line(worker) + ENDED]
                if has_ended and self._words[line + READY] < reduction.number:
                    action = reduction.action
                    raise Deadlock(
                        f"the reduction of {action.buffer.slot}[{action.buffer.bucket}] at clock {action.clock} waits "
                        f"for worker {worker}, whose script has ended.\n"
                        "  Let every worker make the same number of steps, e.g. with worker.share(...)."
                    )

    def waits_for(self) -> list[int]:
        """The workers that have not given to the oldest reduction under way."""
        for reduction in self._open:
            return [w for w, line in enumerate(reduction.lines) if self._words[line + READY] < reduction.number]
        return []
