"""What a simulated worker runs: something that goes on until it asks for a thing of its driver."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from weft.core.script_state import BACKWARD, REPORT, SAVE, SHARE, STEP
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
    is_repeat: bool = False
    """No samples were counted for it; it weighs as an earlier step did."""


@dataclass(slots=True)
class PortionWanted:
    """A share wants one of its portions; go on when the driver has filled in which one, or None: it is over."""

    share: int
    num_portions: int
    portion: int | None = None


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
    of: int | None = None
    """The place of the one model that is asked for, of several that joined."""
    allow_nan: bool = False
    """Also if it is not finite."""


Request = BackwardDone | StepDone | PortionWanted | ReportDone | SaveAsked
CALLS: Mapping[type[Request], str] = {
    BackwardDone: BACKWARD,
    StepDone: STEP,
    PortionWanted: SHARE,
    ReportDone: REPORT,
    SaveAsked: SAVE,
}
"""By which call of its script a request comes."""


class Program(Protocol):
    """A worker's script, real or ghostly."""

    def resume(self) -> Request | None:
        """Let it run up to its next request; None when it has ended."""
        ...


class Newcomer(Program, Protocol):
    """The script of a worker that comes into a run."""

    def begin_at(self, step: int) -> None:
        """Its first step will be this one, where the run is."""
        ...


class GhostProgram:
    """A script without maths: the same requests for a known number of samples in each step."""

    resume: Callable[[], Request | None]

    def __init__(self, step_samples: Sequence[int], num_steps: int) -> None:
        self._steps = step_samples, num_steps
        self.begin_at(0)

    def begin_at(self, step: int) -> None:
        """Its next step will be this one."""
        self.resume = partial(next, self._run(*self._steps, step), None)

    def again(self) -> "GhostProgram":
        """The same script, begun anew."""
        return GhostProgram(*self._steps)

    @staticmethod
    def _run(step_samples: Sequence[int], num_steps: int, first: int) -> Generator[Request, None, None]:
        per_epoch = len(step_samples)
        requests = {samples: (BackwardDone(samples), StepDone(samples, None)) for samples in set(step_samples)}
        for step in range(first, num_steps):
            yield from requests[step_samples[step % per_epoch]]
            if (step + 1) % per_epoch == 0:
                yield ReportDone(step // per_epoch, {})


class GhostTaker:
    """A script without maths whose shares take portions, of known numbers of samples, as they are handed out."""

    resume: Callable[[], Request | None]

    def __init__(self, portion_samples: Sequence[int], num_epochs: int, steps_max: int | None) -> None:
        self.resume = partial(next, self._run(portion_samples, num_epochs, steps_max), None)

    @staticmethod
    def _run(portion_samples: Sequence[int], num_epochs: int, steps_max: int | None) -> Generator[Request, None, None]:
        num_steps = 0
        for epoch in range(num_epochs):
            while num_steps != steps_max:
                wanted = PortionWanted(epoch, len(portion_samples))
                yield wanted
                if wanted.portion is None:
                    break
                samples = portion_samples[wanted.portion]
                yield BackwardDone(samples)
                yield StepDone(samples, None)
                num_steps += 1
            yield ReportDone(epoch, {})
            if num_steps == steps_max:
                return


class GhostSharer:
    """A script without maths whose shares are found out batch by batch, from iterators of numbers of samples."""

    resume: Callable[[], Request | None]

    def __init__(self, shares: Iterable[Iterable[int]], steps_max: int | None) -> None:
        self.resume = partial(next, self._run(shares, steps_max), None)

    @staticmethod
    def _run(shares: Iterable[Iterable[int]], steps_max: int | None) -> Generator[Request, None, None]:
        num_steps = 0
        for epoch, batches in enumerate(shares):
            for samples in batches:
                yield BackwardDone(samples)
                yield StepDone(samples, None)
                num_steps += 1
                if num_steps == steps_max:
                    break
            yield ReportDone(epoch, {})
            if num_steps == steps_max:
                return
