"""A worker's part in going on without lost ones: it says how far its script is, and deals again what they left.

| order | this worker                                                                      | its script          |
|-------|----------------------------------------------------------------------------------|---------------------|
| 1     | freezes and says what it has sent (`Freeze`, `Frozen`)                            | may end no share    |
| 2     | tells its peers the view (`ViewTold`), and says how far all are (`ViewTaken`)     | may end no share    |
| 3     | adds what the lost ones have not committed to the open shares (`DealAgain`)       | goes on with these  |

Where reductions are messages, one may have ended for some workers and not for others when the view changes, and ends
for these later. So how far the lost ones were is what any of the others knows to be committed.
"""

from collections.abc import Callable
from threading import RLock
from typing import TypeVar

from weft.core.script_state import BEFORE_TRAINING, IN_BACKWARD, ScriptState
from weft.data.dealt_again import DealtAgain, Reached
from weft.runtime.messages import DealAgain, Freeze, Frozen, LaidOut, Message, ViewTaken, ViewTold, WorkerJob
from weft.runtime.worker_runtime import WorkerRuntime

T = TypeVar("T")


class Survivor:
    """One worker in a run that goes on when others are lost. Called by the thread that drives."""

    def __init__(
        self,
        job: WorkerJob,
        script: ScriptState,
        send: Callable[[Message], object],
        lock: RLock,
        wait_in_share: Callable[[Callable[[], bool]], None],
        num_given: Callable[[], int],
    ) -> None:
        """`send` takes messages to the engine. `lock` is the driving thread's; `wait_in_share` drives until a condition
        holds, while the script waits for data; `num_given` says how many buckets of a backward under way are given."""
        self._num_given = num_given
        self._processes = list(range(job.num_workers))
        self._lock = lock
        self._wait_in_share = wait_in_share
        self._script = script
        self._send = send
        self._runtime: WorkerRuntime
        self._view, self._dealt = 0, 0
        """The last view that is to come or has come, and the last whose lost workers' samples are dealt."""
        self.shares = DealtAgain(job.rank, job.num_workers, self._when_dealt, self._publish, lock)

    @property
    def is_dealing(self) -> bool:
        """Whether members change, or samples of lost ones are still to be dealt."""
        return self._dealt < self._view

    def _when_dealt(self, look: Callable[[], T]) -> T:
        """Call `look` when the samples of lost workers are dealt; blocks while members change."""
        with self._lock:
            if self.is_dealing:
                self._wait_in_share(lambda: not self.is_dealing)
            return look()

    def begin(self, runtime: WorkerRuntime) -> None:
        """The worker is laid out and connected: from now on the others can go on without it, and it without them."""
        self._runtime = runtime
        runtime.driver.view_change.on_frozen = self._say_frozen
        runtime.driver.view_change.on_view = self._say_taken
        self._send(LaidOut())

    def hear(self, message: Freeze | ViewTold | DealAgain) -> None:
        """Take a message of the engine about a change of view."""
        if isinstance(message, Freeze):
            self._view = message.view
            self._runtime.driver.view_change.freeze(message)
        elif isinstance(message, ViewTold):
            self._runtime.driver.view_change.cut(message)
        else:
            self._deal(message)

    def _say_frozen(self, order: Freeze, sent: dict[int, int]) -> None:
        self._send(Frozen(order.view, sent))

    def _say_taken(self, told: ViewTold) -> None:
        """The peers are about to be told the view. Where all make the same steps, the lost ones were as far as this
        worker is: what was reduced is committed. Elsewhere each has written down how far it was."""
        runtime = self._runtime
        lost = [rank for rank in self._processes if rank not in told.processes]
        self._processes = told.processes
        if runtime.strategy.keeps_replicas_equal:
            has_all_given = self._script.at is IN_BACKWARD or self._num_given() == len(runtime.world.trainable)
            is_reduced = has_all_given and not runtime.worker.peer.holds_user
            reached = dict.fromkeys(lost, self.shares.reached(is_reduced=is_reduced))
        else:
            reached = {rank: runtime.published(rank) for rank in lost}
        self._send(ViewTaken(told.view, self.shares.reached(), reached))

    def _deal(self, message: DealAgain) -> None:
        self.shares.lose(message.lost, message.members, message.num_begun)
        self._dealt = message.view

    def _publish(self, reached: Reached) -> None:
        if self._script.at not in BEFORE_TRAINING:
            self._runtime.publish(reached)
