"""A worker's part in going on without lost ones: it says how far its script is, and deals again what they left."""

from collections.abc import Callable

from weft.core.script_state import BEFORE_TRAINING, IN_BACKWARD, ScriptState
from weft.data.dealt_again import DealtAgain, Reached
from weft.runtime.messages import Freeze, Frozen, LaidOut, Message, ViewTold
from weft.runtime.worker_runtime import WorkerRuntime


class Survivor:
    """One worker in a run that goes on when others are lost. Called by the thread that drives."""

    def __init__(
        self,
        num_workers: int,
        script: ScriptState,
        send: Callable[[Message], object],
        tell: Callable[[str], None],
        await_view: Callable[[], None],
    ) -> None:
        """`send` takes messages to the engine, and `tell` what the user has to know, from the first of the members;
        `await_view` blocks while the view changes."""
        self._members = list(range(num_workers))
        self._script = script
        self._send = send
        self._tell = tell
        self._runtime: WorkerRuntime
        self.shares = DealtAgain(num_workers, await_view, self._publish)

    def begin(self, runtime: WorkerRuntime) -> None:
        """The worker is laid out and connected: from now on the others can go on without it, and it without them."""
        self._runtime = runtime
        runtime.driver.view_change.on_frozen = self._say_frozen
        runtime.driver.view_change.on_view = self._deal_again
        self._send(LaidOut())

    def _say_frozen(self, order: Freeze, sent: dict[int, int]) -> None:
        self._send(Frozen(order.view, sent, self.shares.reached()))

    def _deal_again(self, told: ViewTold) -> None:
        """The members change: deal again what the lost ones have not committed. Where all make the same steps, they
        were as far as this worker is: what was reduced is committed."""
        runtime, before = self._runtime, self.shares.num_untaken
        lost = [rank for rank in self._members if rank not in told.members]
        self._members = told.members
        if runtime.strategy.keeps_replicas_equal:
            is_reduced = self._script.at is IN_BACKWARD and not runtime.worker.peer.holds_user
            reached = dict.fromkeys(lost, self.shares.reached(is_reduced=is_reduced))
        else:
            reached = {rank: runtime.published(rank) for rank in lost}
        self.shares.lose(reached, told.reached)
        untaken = self.shares.num_untaken - before
        if untaken and runtime.worker.id == min(told.members):
            self._tell(f"{untaken} samples of lost workers are not used: all others had ended that epoch")

    def _publish(self, reached: Reached) -> None:
        if self._script.at not in BEFORE_TRAINING:
            self._runtime.publish(reached)
