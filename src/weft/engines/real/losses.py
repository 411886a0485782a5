"""What is told of a worker that was lost while the others went on."""

from msgspec import Struct


class Loss(Struct, frozen=True, kw_only=True):
    """One lost worker. Seconds are since the run began."""

    worker: int
    cause: str
    step: int
    """The last step that the worker has told of."""
    detected_s: float
    told_s: float | None = None
    """When all others had frozen, and were told the view without it; None: the run ended before."""

    def __str__(self) -> str:
        return f"worker {self.worker} is lost at step {self.step}: {self.cause}"
