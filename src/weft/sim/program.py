"""What a simulated worker runs: something that goes on until it asks for a thing of its driver."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from weft.core.seat import Reported


@dataclass(slots=True)
class BackwardDone:
    """Backward has run; go on when the user may see the gradient."""

    samples: float


@dataclass(slots=True)
class StepDone:
    """optimizer.step() was called; go on when the next iteration may run."""

    samples: float
    loss: float | None


@dataclass(slots=True)
class ReportDone:
    """The user reported; go on when the peer no longer holds the user."""

    epoch: int
    numbers: Reported


@dataclass(slots=True)
class SaveAsked:
    """The user asked for a model in a file."""

    path: str
    model: str


Request = BackwardDone | StepDone | ReportDone | SaveAsked


class Program(Protocol):
    """A worker's script, real or ghostly."""

    def resume(self) -> Request | None:
        """Let it run up to its next request; None when it has ended."""
        ...


class GhostProgram:
    """A script without maths: the same requests for a known number of samples in each step."""

    resume: Callable[[], Request | None]

    def __init__(self, step_samples: Sequence[int], num_steps: int) -> None:
        self.resume = partial(next, self._run(step_samples, num_steps), None)

    @staticmethod
    def _run(step_samples: Sequence[int], num_steps: int) -> Generator[Request, None, None]:
        per_epoch = len(step_samples)
        requests = {samples: (BackwardDone(samples), StepDone(samples, None)) for samples in set(step_samples)}
        for step in range(num_steps):
            yield from requests[step_samples[step % per_epoch]]
            if (step + 1) % per_epoch == 0:
                yield ReportDone(step // per_epoch, {})
