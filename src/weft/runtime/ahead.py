"""A script that runs ahead: it goes on before its gradients are reduced, and waits for a bucket when it needs it.

Told early that its gradients are reduced (rule 3 of docs/architecture.md: an event promises values, not instants), the
peer lets backward return, and at the step applies them. The update of each bucket is put off until its gradient is
there and the script uses one of its parameters, most often in the next forward: so buckets cross the network while the
script makes its step, takes its next batch, and computes the layers before. What the script sees is what it would have
seen without: the replica knows of each use, and lands the bucket first.

| a bucket is | since                 | its gradient             | its parameters                   |
|-------------|-----------------------|--------------------------|----------------------------------|
| promised    | the end of backward   | the first use lands all  | are as they were                 |
| stepped     | the step              | the first use lands all  | the first use lands the bucket   |
| landed      | `land`                | is reduced               | are updated, if the step was made |

All buckets land before the next backward, and before the script says anything else to its worker. Only for workers
that are alone on their host: others update stretches of parameters that all of them read.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from statistics import median
from typing import Any, Protocol

from weft.core.actions import Apply
from weft.core.events import Reduced
from weft.core.peer import Peer
from weft.core.script_state import IN_STEP, STEP, ScriptState
from weft.runtime.reduce.hosts import HostsReduce
from weft.runtime.shared_params import SharedParams

Wait = Callable[[Callable[[], bool]], None]
Driving = Callable[[], AbstractContextManager[Any]]

SHARE_MIN = 0.04
"""A script runs ahead if it would wait in backward for more than this share of a step: it then gains more than a thread
that computes beside it, and knowing each use of a tensor, take from it."""
LOOKS = 3
"""The last so many steps in which it did not run ahead say how long it waits: their median counts."""
LOOK_EVERY = 50
"""While it runs ahead, it waits in one step of so many, to see whether it still would."""


class WaitingShare:
    """What share of its steps a script waits in backward, in the last few steps in which it did not run ahead."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._shares: deque[float] = deque(maxlen=LOOKS)
        self._gave_s: float | None = None
        self._step_s: float | None = None
        """How long the step took that backward has ended: since the last backward ended."""
        self._num_ahead = 0

    def is_large(self) -> bool:
        """Whether running ahead would pay in the step that ends now; one step of LOOK_EVERY is to be measured."""
        if len(self._shares) < LOOKS or median(self._shares) < SHARE_MIN:
            return False
        self._num_ahead = (self._num_ahead + 1) % LOOK_EVERY
        return bool(self._num_ahead)

    def gave(self) -> None:
        """Backward has ended."""
        before_s, self._gave_s = self._gave_s, self._clock()
        self._step_s = None if before_s is None else self._gave_s - before_s

    def waited(self) -> None:
        """The script has waited since backward ended."""
        assert self._gave_s is not None
        if self._step_s is not None:
            waited_s = self._clock() - self._gave_s
            self._shares.append(waited_s / max(self._step_s, waited_s, 1e-9))


class Awaited(Protocol):
    """A replica's tensors, of which each use is known while they are awaited."""

    def may_be_awaited(self) -> bool:
        """Whether each use would be known."""
        ...

    def await_gradients(self, land: Callable[[int], None]) -> None:
        """From now on, call `land` with the number of each bucket of which a gradient is used."""
        ...

    def begin_update(self) -> None:
        """Take the numbers of the optimizer for all buckets: the script may change them before they land."""
        ...

    def await_params(self) -> None:
        """From now on, call `land` also for a bucket of which a parameter is used."""
        ...

    def landed(self, bucket: int) -> None:
        """The bucket is what it was again."""
        ...


class RunAhead:
    """Lets one worker's script run ahead; its thread calls, and holds the driver's lock where it lands."""

    def __init__(
        self,
        reduce: HostsReduce,
        params: SharedParams,
        awaited: Awaited,
        script: ScriptState,
        wait: Wait,
        driving: Driving,
        share: WaitingShare | None = None,
    ) -> None:
        """`wait` blocks until a condition holds, within the context of `driving`. Without `share`, the script runs
        ahead whether it would wait or not."""
        self._reduce = reduce
        self._params = params
        self._awaited = awaited
        self._script = script
        self._wait = wait
        self._driving = driving
        self._ahead: set[int] = set()
        """The buckets that have not landed."""
        self._updates: dict[int, Callable[[], None]] = {}
        """The updates of buckets that were put off."""
        self._share = share
        self.num_steps = 0
        """The steps in which the script ran ahead."""

    @property
    def is_ahead(self) -> bool:
        """Whether anything has not landed."""
        return bool(self._ahead)

    def _may_begin(self) -> bool:
        """Whether the script may go on from the backward in which it waits."""
        may = self._reduce.may_promise() and self._params.is_untouched() and self._awaited.may_be_awaited()
        return may and (self._share is None or self._share.is_large())

    def end_backward(self, buckets: Sequence[int], deliver: Callable[[Reduced], None], peer: Peer) -> None:
        """All gradients are given: block until the peer lets the script go on, or let it run ahead. What is reduced
        besides gradients is waited for in any case."""
        if self._share is not None:
            self._share.gave()
        is_ahead = self._may_begin()
        if is_ahead:
            self.num_steps += 1
            self._ahead.update(buckets)
            self._reduce.promise(deliver)
            self._awaited.await_gradients(self.land)
        self._wait(lambda: not peer.holds_user)
        if self._share is not None and not is_ahead:
            self._share.waited()

    def put_off(self, updates: Sequence[Apply], apply: Callable[[Sequence[Apply]], None]) -> None:
        """Make these updates, by `apply`, when their buckets land."""
        self._params.promise()
        self._awaited.begin_update()
        for update in updates:
            self._updates[update.into.bucket] = partial(apply, [update])
        self._awaited.await_params()

    def land(self, bucket: int) -> None:
        """Wait until the bucket's gradient is reduced, and update its parameters if the step was made."""
        if bucket not in self._ahead:
            return
        with self._driving():
            self._wait(lambda: not self._reduce.is_under_way(bucket))
            self._ahead.discard(bucket)
            self._awaited.landed(bucket)
            update = self._updates.pop(bucket, None)
            if update is not None:
                with nullcontext() if self._script.at is IN_STEP else self._script.during(STEP):
                    update()

    def land_all(self) -> None:
        """Land everything."""
        for bucket in sorted(self._ahead, reverse=True):
            self.land(bucket)
