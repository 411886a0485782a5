"""An orderly stop: workers say at which step they are, and all leave after the same one."""

from collections.abc import Callable, Container, Sequence

from weft.engines.real.worker_record import WorkerRecord
from weft.runtime.messages import LeaveAt, Message, StepAsked


class OrderlyStop:
    """One stop, begun by the first signal; `send` takes messages to workers."""

    def __init__(self, send: Callable[[int, Message], None]) -> None:
        self._send = send
        self.has_begun = False
        self._leave_at: int | None = None

    def begin(self, workers: Sequence[WorkerRecord]) -> None:
        """Ask all workers at which step they are; they pause after it."""
        self.has_begun = True
        for worker in workers:
            self._send(worker.rank, StepAsked())

    def go_on(self, workers: Sequence[WorkerRecord], ended: Container[int]) -> None:
        """Once all whose scripts have not ended have answered, tell them the step after which they leave."""
        told = [worker.step_told for worker in workers if worker.rank not in ended]
        if self._leave_at is None and told and all(step is not None for step in told):
            self._leave_at = max(step for step in told if step is not None) + 1
            for worker in workers:
                self._send(worker.rank, LeaveAt(self._leave_at))
