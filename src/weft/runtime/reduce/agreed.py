"""Reduce by a library that needs the same sums in the same order from all processes, such as torch.distributed.

Workers reach their reductions in different orders. So each tells worker 0 when it gives to a reduction, with which
weight; when all have given, worker 0 sends all workers these weights, and they sum this one next. A reduction's states:

| state     | entered when                                   | then                                                 |
|-----------|------------------------------------------------|------------------------------------------------------|
| given     | the peer emits Reduce                          | worker 0 is sent `Given`                             |
| agreed    | worker 0's `Agreed` comes: same order for all  | it waits until the library's processes are connected |
| under way | the library's processes are connected          | the library sums the contribution, times its share   |
| ended     | the library's sum is done                      | the result is in place, and the peer is told Reduced |

Nothing blocks, so the next buckets are computed while earlier ones are summed. The library sums a copy: the
contribution itself is not changed, and the result has memory of its own. The library's threads only call `wake`; all
state here belongs to the thread that drives.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from weft.core.actions import MEAN, OPS, Reduce
from weft.core.errors import Deadlock, IllegalAction, UnexpectedMessage
from weft.core.events import Reduced
from weft.core.names import GRADIENT, Bucket, Buffer, NodeId
from weft.core.seat import ReplicaMemory
from weft.core.world import World
from weft.runtime.mailbox import Mailbox
from weft.runtime.measure.tracer import Tracer
from weft.store.numpy import NumpyStore
from weft.transports.summing import Memory, PendingSum, Summing

Array = NDArray[Any]
Key = tuple[str, int]
"""(slot, bucket): there is at most one reduction of it at a time."""

HALF = 2
SINGLE = 4
"""Bytes of a number in half and in single precision: half precision is summed in single precision."""


class LibraryNote(Struct, frozen=True, tag=True):
    """To all others: a value that the library's processes need to connect to each other."""

    name: str
    value: bytes


class Given(Struct, frozen=True, tag=True):
    """To worker 0: this worker has contributed to a reduction."""

    slot: str
    bucket: int
    clock: int
    kind: str
    op: str
    weight: float


class Agreed(Struct, frozen=True, tag=True):
    """From worker 0 to all: all have given, and this is the next reduction."""

    slot: str
    bucket: int
    weights: list[float]


class ScriptEnded(Struct, frozen=True, tag=True):
    """To worker 0: this worker's script has ended; it contributes to no further reduction."""


_encode = msgspec.msgpack.Encoder().encode
_decoder: Any = msgspec.msgpack.Decoder(LibraryNote | Given | Agreed | ScriptEnded)


class AgreedReduction:
    """One reduction under way."""

    __slots__ = ("action", "given", "is_given", "result", "since_s", "sum", "summed", "weights")

    def __init__(self, action: Reduce, given: Memory, result: Memory, summed: Memory, *, is_given: bool) -> None:
        self.action = action
        self.given = given
        """This worker's contribution."""
        self.result = result
        """Memory for the result."""
        self.summed = summed
        """Memory in which the library sums, in place."""
        self.is_given = is_given
        self.weights: Sequence[float] = ()
        self.sum: PendingSum | None = None
        self.since_s = time.perf_counter()


class AgreedReduce:
    """This worker's part in all reductions; worker 0 also decides their order."""

    needs_background = True
    """Agreeing on the order, and beginning the sums, must go on while scripts compute."""

    def __init__(
        self,
        world: World,
        rank: int,
        mailbox: Mailbox,
        store: NumpyStore,
        summing: Summing,
        wake: Callable[[], None],
        given: Sequence[Memory] = (),
        tracer: Tracer | None = None,
    ) -> None:
        self._rank = rank
        self._group = tuple(world.workers)
        self._mailbox = mailbox
        self._store = store
        self._summing = summing
        self._wake = wake
        self._gradients = given
        """Memory to which backward writes the gradients, if results go elsewhere; empty: gradients are staged, too."""
        self._tracer = tracer
        self._staged: dict[Key, Array] = {}
        """Copies of contributions that are not `given` gradients."""
        self._widened: dict[Key, Memory] = {}
        self._open: dict[Key, AgreedReduction] = {}
        self._agreed: deque[AgreedReduction] = deque()
        """Reductions that are agreed on, and wait until the library's processes are connected."""
        self._under_way: list[AgreedReduction] = []
        self._gifts: dict[Key, dict[int, Given]] = {}
        """On worker 0: the workers' `Given`, for reductions to which not all have given."""
        self._ended: set[int] = set()
        """On worker 0: the workers whose scripts have ended."""
        self._has_met = False
        self.bytes_shared = 0
        self.num_copies = 0
        mailbox.on_note = self._hear

    def join(self, action: Reduce) -> None:
        """Contribute to a reduction: copy the value as it is now, unless it is a given gradient, and tell worker 0."""
        if action.group != self._group or action.op not in OPS or not 0 <= action.weight < inf:
            raise IllegalAction(f"{action} must name all workers, an op of {OPS} and a weight of at least 0.")
        buffer = action.buffer
        key = buffer.slot, buffer.bucket
        if key in self._open or buffer.part is not None:
            raise IllegalAction(f"{action} came while a reduction of its bucket was under way, or names a part of one.")
        self._open[key] = self._place(action)
        self._summing.meet(self._wake)
        self._give(self._rank, Given(*key, action.clock, action.kind, action.op, action.weight))

    def _place(self, action: Reduce) -> AgreedReduction:
        """The memory of a reduction: given gradients are used in place, everything else is copied to staging."""
        buffer = action.buffer
        is_given = buffer.slot == GRADIENT and bool(self._gradients)
        if is_given:
            given, result = self._gradients[buffer.bucket], self._store.replica.array(GRADIENT, buffer.bucket)
        else:
            lent = self._store.lend(buffer)
            staged = self._staged.get((buffer.slot, buffer.bucket))
            if staged is None:
                staged = self._staged[buffer.slot, buffer.bucket] = self._summing.beside(lent, lent.itemsize)
            np.copyto(staged, lent)
            given = result = staged
            self.num_copies += 1
        summed = result
        if given.itemsize == HALF:
            summed = self._wide(buffer, result)
        return AgreedReduction(action, given, result, summed, is_given=is_given)

    def _wide(self, buffer: Buffer, result: Memory) -> Memory:
        """Memory in single precision in which a bucket of half precision is summed."""
        key = buffer.slot, buffer.bucket
        if key not in self._widened:
            self._widened[key] = self._summing.beside(result, SINGLE)
        return self._widened[key]

    def _give(self, worker: int, given: Given) -> None:
        """Send `given` of `worker` to worker 0. On worker 0: send `Agreed` to all when every worker has given."""
        if self._rank:
            self._mailbox.tell(self._rank, 0, _encode(given))
            return
        key = given.slot, given.bucket
        gifts = self._gifts.setdefault(key, {})
        if worker in gifts:
            raise UnexpectedMessage(f"worker {worker} gave twice to a reduction of {given.slot}[{given.bucket}].")
        gifts[worker] = given
        if len(gifts) < len(self._group):
            return
        del self._gifts[key]
        self._check_alike(gifts)
        agreed = Agreed(*key, [gifts[each].weight for each in self._group])
        self._to_others(agreed)
        self._agree(agreed)

    def _check_alike(self, gifts: Mapping[int, Given]) -> None:
        mine = gifts[0]
        for worker, theirs in sorted(gifts.items()):
            if (theirs.clock, theirs.kind, theirs.op) != (mine.clock, mine.kind, mine.op):
                raise IllegalAction(
                    f"{self._open[mine.slot, mine.bucket].action} met another reduction of its bucket on worker "
                    f"{worker}, at clock {theirs.clock}."
                )

    def _to_others(self, message: LibraryNote | Agreed) -> None:
        raw = _encode(message)
        for other in self._group:
            if other != self._rank:
                self._mailbox.tell(self._rank, other, raw)

    def _hear(self, source: int, raw: bytes | memoryview) -> None:
        """Handle a note of another worker."""
        try:
            message = _decoder.decode(raw)
        except msgspec.MsgspecError as error:
            raise UnexpectedMessage(f"worker {source} sent a note that cannot be read: {error}.") from error
        if isinstance(message, LibraryNote):
            self._summing.hear(message.name, message.value)
        elif isinstance(message, Given) and not self._rank and 0 <= message.weight < inf:
            self._give(source, message)
        elif isinstance(message, ScriptEnded) and not self._rank:
            self._ended.add(source)
        elif isinstance(message, Agreed) and not source:
            self._agree(message)
        else:
            raise UnexpectedMessage(f"worker {source} sent {message}, which it may not send.")

    def _agree(self, agreed: Agreed) -> None:
        reduction = self._open.get((agreed.slot, agreed.bucket))
        is_sound = len(agreed.weights) == len(self._group) and all(0 <= weight < inf for weight in agreed.weights)
        if reduction is None or reduction.weights or not is_sound:
            raise UnexpectedMessage(f"worker 0 sent {agreed}, to which worker {self._rank} has not given.")
        reduction.weights = agreed.weights
        self._agreed.append(reduction)

    def progress(self, deliver: Callable[[Reduced], None]) -> bool:
        """Begin the sums that are agreed on; tell `deliver` of those that have ended. True if anything was done."""
        moved = False
        if not self._has_met:
            for name, value in self._summing.notes():
                self._to_others(LibraryNote(name, value))
                moved = True
            self._has_met = bool(self._agreed) and self._summing.is_ready
        while self._agreed and self._has_met:
            self._begin(self._agreed.popleft())
            moved = True
        for reduction in tuple(self._under_way):
            if reduction.sum is None or reduction.sum.is_done:
                self._under_way.remove(reduction)
                del self._open[reduction.action.buffer.slot, reduction.action.buffer.bucket]
                deliver(self._end(reduction))
                moved = True
        return moved

    def may_move(self) -> bool:
        """True: notes of other workers, which are messages, may have come."""
        return True

    def _begin(self, reduction: AgreedReduction) -> None:
        """Let the library sum a copy of the contribution, times its share; a contribution of weight 0 is left out."""
        op, total = reduction.action.op, sum(reduction.weights)
        mine, into = reduction.weights[self._rank], reduction.summed
        self._under_way.append(reduction)
        if not total:
            return
        share = mine / total if op == MEAN else mine
        reduction.sum = self._summing.begin(reduction.given, into, share if mine else None, op)
        num_workers = len(self._group)
        self.bytes_shared += 2 * (num_workers - 1) * into.nbytes // num_workers

    def _end(self, reduction: AgreedReduction) -> Reduced:
        action, result, weight = reduction.action, reduction.result, sum(reduction.weights)
        if weight and result is not reduction.summed:
            self._summing.copy(reduction.summed, result)
        elif not weight and reduction.is_given:
            self._summing.copy(reduction.given, result)
        if weight and not reduction.is_given:
            self._store.write(action.buffer, result)
        if self._tracer is not None:
            self._tracer.reduced(self._rank, action, result.nbytes, reduction.since_s)
        return Reduced(action.clock, action.buffer, weight)

    def settle(self, deliver: Callable[[Reduced], None]) -> bool:
        """Never called: torch.distributed cannot go on without a process that is lost, so such a loss ends the run."""
        raise NotImplementedError

    def change_members(self, members: Sequence[NodeId], view: int) -> None:
        """Never called, as `settle`."""
        raise NotImplementedError

    def may_rest(self) -> bool:
        """False: notes of other workers may come at any time."""
        return False

    def say_ended(self) -> None:
        """Tell worker 0 that this worker's script has ended."""
        if self._rank:
            self._mailbox.tell(self._rank, 0, _encode(ScriptEnded()))
        else:
            self._ended.add(0)

    def check_alive(self) -> None:
        """On worker 0: raise Deadlock when a reduction waits for a worker whose script has ended."""
        for (slot, bucket), gifts in self._gifts.items():
            for worker in sorted(self._ended - set(gifts)):
                clock = next(iter(gifts.values())).clock
                raise Deadlock(
                    f"the reduction of {slot}[{bucket}] at clock {clock} waits "
                    f"for worker {worker}, whose script has ended.\n"
                    "  Let every worker make the same number of steps, e.g. with worker.share(...)."
                )

    def waits_for(self) -> list[int]:
        """The workers that have not given to the oldest reduction under way, as far as this worker knows."""
        for key in self._open:
            gifts = self._gifts.get(key)
            return [] if gifts is None else [worker for worker in self._group if worker not in gifts]
        return []

    def close(self) -> None:
        """Close the library's connections."""
        self._summing.close()


def apart_memory(buckets: Sequence[Bucket], summing: Summing) -> ReplicaMemory:
    """Private memory for a replica, with separate arrays for given and for reduced gradients."""
    trained = [bucket for bucket in buckets if bucket.trainable]
    given, seen = ([summing.gradients(b.num_elements, b.itemsize) for b in trained] for _ in range(2))
    return ReplicaMemory([np.zeros(bucket.num_elements, f"f{bucket.itemsize}") for bucket in buckets], given, seen)
