"""Reduce on one host: every worker sums its stretch of all contributions, in place, in the shared arena.

A worker writes only its own line of words, its own contribution, and its own stretch of the result:

| state  | entered when               | then this worker writes, in this order                              |
|--------|----------------------------|---------------------------------------------------------------------|
| given  | its peer emits Reduce      | contribution, WEIGHT, CLOCK, KIND; fence; READY = number; bells     |
| summed | all READY >= number; fence | its stretch of the result; fence; DONE = number; bells              |
| ended  | all DONE >= number; fence  | nothing: its script's view of the result is refreshed, Reduced told |

The fences order data before the word that announces it, and the word before the data that is read because of it.
Nothing blocks here: `progress` does what is possible, and is called again when something may have changed.

When members change, what all have summed, the lost ones too, has ended for all; all else never happened. The workers of
the new view count their reductions from a number above all earlier ones, so that words of the old view mean nothing.

A result is not overwritten before all have given to the bucket's next reduction, which a worker does only after it has
used this one. A contribution is not overwritten before all have summed it.
"""

import time
from collections.abc import Callable, Sequence
from zlib import crc32

from weft.core.actions import OPS, Reduce
from weft.core.errors import Deadlock, IllegalAction
from weft.core.events import Reduced
from weft.core.names import GRADIENT, Buffer, NodeId
from weft.runtime.measure.tracer import Tracer
from weft.store.arena import Arena
from weft.store.numpy import NumpyStore
from weft.store.reduction import reduce_into
from weft.transports.bells import Bells, fence

REGIONS = ("given", "staged")
"""Gradients are reduced from where backward put them; everything else is staged first."""
READY, DONE, WEIGHT, CLOCK, KIND = range(5)
"""Words of a worker's line for a lane and bucket; WEIGHT is a double, the others are integers."""
NUMBER_BITS = 40
"""Reductions of a bucket are numbered from `view << NUMBER_BITS` on."""
ENDED = 2
"""The word of a worker's own line that says that its script has ended."""


class Lane:
    """Where the reductions of one bucket happen: the words and contributions of the `workers` of a view (by their local
    ranks), and this one's stretch."""

    def __init__(self, arena: Arena, lane: int, bucket: int, workers: Sequence[int], number: int = 0) -> None:
        self.is_staged = bool(lane)
        self.lines = [arena.reduction_line(lane, bucket, worker) for worker in workers]
        self.mine = arena.reduction_line(lane, bucket, arena.local_rank)
        self.contribution = arena.array(f"{REGIONS[lane]}.{arena.local_rank}", bucket)
        start, stop = arena.span(bucket, workers.index(arena.local_rank), len(workers))
        self.stretches = [arena.array(f"{REGIONS[lane]}.{worker}", bucket)[start:stop] for worker in workers]
        self.total = arena.array(f"reduced.{lane}", bucket)[start:stop]
        self.number = number
        """The number of the last reduction that this worker gave to."""
        self.is_open = False


class SharedReduction:
    """One reduction under way."""

    __slots__ = ("action", "awaited", "is_summed", "lane", "since_s", "weight", "weights")

    def __init__(self, action: Reduce, lane: Lane) -> None:
        self.action = action
        self.lane = lane
        self.awaited: int | None = READY
        """The word that all must have set before anything more can be done; None: it waits for something else, too."""
        self.is_summed = False
        self.weights: list[float] = []
        """Weights of the host's workers."""
        self.weight = 0.0
        """Sum of the weights of all workers of the run."""
        self.since_s = time.perf_counter()


class SharedReduce:
    """This worker's part in all reductions of the host's workers."""

    needs_background = False

    def __init__(
        self,
        arena: Arena,
        bells: Bells,
        store: NumpyStore,
        *,
        gradient_is_given: bool,
        tracer: Tracer | None = None,
    ) -> None:
        self._arena = arena
        self._tracer = tracer
        self._bells = bells
        self._store = store
        self._gradient_is_given = gradient_is_given
        self._words = arena.words
        self._workers: Sequence[int] = range(arena.num_workers)
        """The local ranks of the workers of this view."""
        self._group = tuple(self._workers)
        self._before_first = 0
        """The number before that of the first reduction of this view."""
        self._lanes: dict[tuple[int, int], Lane] = {}
        self._known: dict[tuple[str, str, Buffer], tuple[Lane, int]] = {}
        """By kind, op and buffer of a reduction that was checked: its lane and name."""
        self._open: list[SharedReduction] = []
        self.bytes_shared = 0
        self.num_copies = 0

    def join(self, action: Reduce) -> None:
        """Contribute to a reduction: write this worker's contribution, announce it by READY, and ring the bells."""
        if action.group != self._group or action.weight < 0:
            raise self._refused(action)
        known = self._known.get((action.kind, action.op, action.buffer))
        (lane, name), words = known or self._learn(action), self._words
        if lane.is_open or action.buffer.part is not None:
            raise IllegalAction(f"{action} came while a reduction of its bucket was under way, or names a part of one.")
        if lane.is_staged:
            lane.contribution[:] = self._store.lend(action.buffer)
            self.num_copies += 1
        self._give(lane, action.buffer.bucket)
        lane.is_open = True
        lane.number += 1
        self._arena.doubles[lane.mine + WEIGHT] = action.weight
        words[lane.mine + CLOCK] = action.clock
        words[lane.mine + KIND] = name
        fence()  # contribution, weight, clock and kind are visible before the word that announces them
        words[lane.mine + READY] = lane.number
        self._open.append(SharedReduction(action, lane))
        self._bells.ring_scripts()

    def _give(self, lane: Lane, bucket: int) -> None:
        """A hook for devices: copy the contribution to where it is summed. In host memory, it is there already."""

    def _lane(self, buffer: Buffer) -> Lane:
        key = 0 if buffer.slot == GRADIENT and self._gradient_is_given else 1, buffer.bucket
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(self._arena, *key, self._workers, self._before_first)
        return lane

    def _learn(self, action: Reduce) -> tuple[Lane, int]:
        """The lane of a reduction, and its name: a checksum of kind, op and slot, by which workers check that they take
        part in the same one."""
        if action.op not in OPS:
            raise self._refused(action)
        name = crc32("/".join((action.kind, action.op, action.buffer.slot)).encode())
        known = self._known[action.kind, action.op, action.buffer] = self._lane(action.buffer), name
        return known

    def _refused(self, action: Reduce) -> IllegalAction:
        return IllegalAction(f"{action} must name all workers, an op of {OPS} and a weight of at least 0.")

    def may_move(self) -> bool:
        """A cheap look: False if every reduction under way waits for words that have not come, so that `progress` could
        do nothing. True also where there is none, or where it is not known."""
        for reduction in self._open:
            if reduction.awaited is None or self._all_have(reduction, reduction.awaited):
                return True
        return not self._open

    def progress(self, deliver: Callable[[Reduced], None]) -> bool:
        """Sum what all workers have given; tell `deliver` of what all have summed. True if anything was done."""
        if not self._open:
            return False
        moved = False
        for reduction in tuple(self._open):
            if not reduction.is_summed and self._all_have(reduction, READY):
                fence()  # the others' contributions are read after the words that announce them
                self._sum(reduction)
                moved = True
            if reduction.is_summed and self._pass_on(reduction):
                moved = True
            if reduction.is_summed and self._all_have(reduction, DONE):
                self._close(reduction, deliver)
                moved = True
        return moved

    def _close(self, reduction: SharedReduction, deliver: Callable[[Reduced], None]) -> None:
        fence()
        self._open.remove(reduction)
        self._forget(reduction)
        reduction.lane.is_open = False
        deliver(self._end(reduction))

    def settle(self, deliver: Callable[[Reduced], None]) -> bool:
        """Tell of the reductions that all have summed, the lost ones too; whether there were any. All have frozen."""
        ended = [reduction for reduction in self._open if reduction.is_summed and self._all_have(reduction, DONE)]
        for reduction in ended:
            self._close(reduction, deliver)
        return bool(ended)

    def change_members(self, members: Sequence[NodeId], view: int) -> None:
        """Forget what is under way. From now on the workers `members` reduce, each a stretch by its place among them;
        numbers of reductions begin above all that were used before."""
        self._group = tuple(members)
        self._workers = [self._arena.ranks.index(rank) for rank in members]
        self._before_first = view << NUMBER_BITS
        self._open.clear()
        self._lanes.clear()
        self._known.clear()

    def _all_have(self, reduction: SharedReduction, word: int) -> bool:
        words, number = self._words, reduction.lane.number
        for line in reduction.lane.lines:  # noqa: SIM110  a loop is twice as fast as all() here
            if words[line + word] < number:  # a fast worker's READY may be that of the bucket's next reduction
                return False
        return True

    def _sum(self, reduction: SharedReduction) -> None:
        reduction.weights = weights = self._weights_of_alike(reduction)
        reduction.weight = sum(weights)
        self._add_up(reduction)
        reduction.is_summed, reduction.awaited = True, None
        self._say_summed(reduction)

    def _say(self, reduction: SharedReduction, word: int) -> None:
        """Set this worker's `word` to the reduction's number, after a fence for earlier writes; ring the bells."""
        fence()
        self._words[reduction.lane.mine + word] = reduction.lane.number
        self._bells.ring_scripts()

    def _say_summed(self, reduction: SharedReduction) -> None:
        self._say(reduction, DONE)
        reduction.awaited = DONE

    def _pass_on(self, reduction: SharedReduction) -> bool:
        """A hook for several hosts, called between the host's sum and the result; returns whether anything was done."""
        return False

    def _forget(self, reduction: SharedReduction) -> None:
        """A hook for subclasses: the reduction has ended."""

    def _add_up(self, reduction: SharedReduction) -> None:
        """Sum this worker's stretch of all contributions into the result."""
        lane, weights = reduction.lane, reduction.weights
        if len(lane.total) and any(weights):
            reduce_into(lane.total, lane.stretches, weights, reduction.action.op)
            self.bytes_shared += lane.total.nbytes * len(weights)

    def _weights_of_alike(self, reduction: SharedReduction) -> list[float]:
        """The weights of all contributions; raises IllegalAction if one is to another reduction of the bucket."""
        words, doubles, lines, mine = self._words, self._arena.doubles, reduction.lane.lines, reduction.lane.mine
        clock, name, weights = words[mine + CLOCK], words[mine + KIND], []
        for line in lines:
            if words[line + CLOCK] != clock or words[line + KIND] != name:
                rank = self._arena.ranks[self._workers[lines.index(line)]]
                raise IllegalAction(
                    f"{reduction.action} met another reduction of its bucket on worker {rank}, "
                    f"at clock {words[line + CLOCK]}."
                )
            weights.append(doubles[line + WEIGHT])
        return weights

    def _end(self, reduction: SharedReduction) -> Reduced:
        action, weight = reduction.action, reduction.weight
        self._take(reduction, weight)
        if self._tracer is not None:
            rank = self._arena.ranks[self._arena.local_rank]
            self._tracer.reduced(rank, action, reduction.lane.contribution.nbytes, reduction.since_s)
        return Reduced(action.clock, action.buffer, weight)

    def _take(self, reduction: SharedReduction, weight: float) -> None:
        """Write the result to the replica. If all weights were 0, a gradient becomes this worker's own contribution."""
        action = reduction.action
        bucket = action.buffer.bucket
        if reduction.lane.is_staged:
            if weight:
                self._store.write(action.buffer, self._arena.array("reduced.1", bucket))
        elif not weight:
            self._store.replica.array(GRADIENT, bucket)[:] = reduction.lane.contribution
        elif self._arena.was_written("reduced.0", bucket):
            seen = self._store.replica.array(GRADIENT, bucket)
            self.num_copies += self._arena.refresh("reduced.0", bucket, seen)

    def may_rest(self) -> bool:
        """True: the others read this worker's words and contributions from shared memory, without its help."""
        return True

    def say_ended(self) -> None:
        """Set ENDED: this worker contributes to no further reduction."""
        self._words[self._arena.worker_line(self._arena.local_rank) + ENDED] = 1
        self._bells.ring_scripts()

    def check_alive(self) -> None:
        """Raise Deadlock when a reduction waits for a worker whose script has ended."""
        for reduction in self._open:
            action, lane = reduction.action, reduction.lane
            for worker, line in zip(self._workers, lane.lines, strict=True):
                has_ended = self._words[self._arena.worker_line(worker) + ENDED]
                if has_ended and self._words[line + READY] < lane.number:
                    raise Deadlock(
                        f"the reduction of {action.buffer.slot}[{action.buffer.bucket}] at clock {action.clock} waits "
                        f"for worker {self._arena.ranks[worker]}, whose script has ended.\n"
                        "  Let every worker make the same number of steps, e.g. with worker.share(...)."
                    )

    def waits_for(self) -> list[int]:
        """The workers that have not given to the oldest reduction under way."""
        for reduction in self._open:
            lane, ranks = reduction.lane, self._arena.ranks
            late = [line for line in lane.lines if self._words[line + READY] < lane.number]
            return [ranks[worker] for worker, line in zip(self._workers, lane.lines, strict=True) if line in late]
        return []

    def close(self) -> None:
        """Nothing to do: the memfd is freed when the last worker ends."""
