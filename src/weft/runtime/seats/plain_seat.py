"""The seat of a script whose training loop is left as it is: a single worker, or one under a baseline (torch's DDP)."""

from collections.abc import Iterator

from weft.checkpoints.taking import Checkpoints
from weft.core.activity import COMPUTES, WAITS
from weft.core.names import GRADIENT
from weft.core.seat import Replica, Reported, step_alone
from weft.core.strategy import Strategy
from weft.observe.records.left_out import LeftOut, refuse
from weft.runtime.channel import Channel
from weft.runtime.measure.foreign_links import foreign_links
from weft.runtime.measure.off_core import OffCore
from weft.runtime.messages import ScriptJoined, WorkerJob
from weft.runtime.seats.engine_seat import EngineSeat
from weft.runtime.seats.once import Sharing
from weft.store.finite import bad_tensor


class PlainSeat(EngineSeat):
    """Counts steps and tells the engine; gradients and parameters never pass through it."""

    is_plain = True

    def __init__(self, job: WorkerJob, channel: Channel, sharing: Sharing) -> None:
        super().__init__(job, channel, sharing)
        self.checkpoints = None if job.checkpoint is None else Checkpoints(job.checkpoint, self.tell)
        self.has_resumed = False
        """The script has gone on from a checkpoint."""
        self._off_core = OffCore()

    @property
    def wants_loss(self) -> bool:
        """Whether losses are sent to the engine; not under a baseline, where the script runs as without Weft."""
        return self.num_workers == 1

    def note(self, activity: str) -> None:
        super().note(activity)
        if activity == COMPUTES:
            self._off_core.restart()

    def join(self, replica: Replica, strategy: Strategy | str | None, compress: str | None = None) -> None:
        self._check_first_join()
        self._replica = replica
        text = strategy if isinstance(strategy, str) else None
        self._channel.send(ScriptJoined(list(replica.layout()), 0, text, 0))
        self._expect_welcome()
        self._begin()

    def join_more(self) -> None:
        self._channel.send(ScriptJoined(list(self._replica.layout()), 0, None, 0))
        self._expect_welcome()

    def settle(self) -> None:
        self.script.begin()

    def gradient_filled(self, bucket: int, samples: float) -> None:
        pass

    def portions(self, num_portions: int, num_samples: int) -> Iterator[int] | None:
        return None

    def check_closures(self) -> None:
        pass

    def backward_finished(self, samples: float) -> None:
        pass

    def step_finished(self, samples: float, loss: float | None, *, is_repeat: bool = False) -> None:
        self._check_over()
        self.settle()
        if self.num_workers > 1:  # DDP waits for the others at the end of backward, which looks like computing
            self.activity_clock.turn_back_to(WAITS, self._off_core.seconds())
        if self._replica.buckets:
            trained = [bucket for bucket, kind in enumerate(self._replica.buckets) if kind.trainable]
            bad = bad_tensor(self._replica, GRADIENT, trained)
            if bad is None or not self.leave_out(bad):
                step_alone(self._replica)
        if self.job.stops_on_nan:
            refuse(self.metrics.left_out, self.rank, self._step, loss)
        self._stretching.stretch()
        self._step += 1
        self._count_step(0.0 if is_repeat else samples, loss)
        self._tell()
        if self._pauses_at_step:
            self._wait(lambda: not self._pauses_at_step)
        self._off_core.restart()

    def end(self) -> None:
        if self.checkpoints is not None and self.has_joined:
            self.checkpoints.on_end(self.leaves)
        if self.has_resumed:  # the run has trained, though perhaps not in this process
            self.settle()
            self._num_shares += 1
        super().end()

    def _digests(self) -> dict[str, int]:
        """Digests of parameters only: DDP copies worker 0's buffers to the other workers only in the next forward."""
        return self._replica.parameter_digests() if self.num_workers > 1 else {}  # type: ignore[attr-defined]

    def leave_out(self, tensor: str) -> bool:
        """Record that the gradient of `tensor` is not finite; returns whether its step is skipped (never under DDP)."""
        if self.num_workers > 1:
            return False
        before = self.metrics.left_out
        number = 1 if before is None else before.num_steps + 1
        first = before.first if before is not None and before.step == self._step - 1 else self._step
        self._leave_out(LeftOut(self._step, f"the gradient of '{tensor}'", number, first))
        return True

    def _observe(self) -> None:
        if self.num_workers > 1 and self.job.addresses:  # on loopback, addresses do not tell workers apart
            self.metrics.observe_links(foreign_links(self.job.addresses))

    def report(self, epoch: int, numbers: Reported) -> None:
        self.settle()
        own = {name: float(value) for name, value in numbers.items() if not callable(value)}
        self._score.report(own)
        self._report(epoch, own, numbers)

    def save(self, path: str, model: str, *, of: int | None = None, allow_nan: bool = False) -> None:
        self.settle()
        super().save(path, model, of=of, allow_nan=allow_nan)
