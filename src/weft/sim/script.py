"""A user's unmodified script as a simulated worker: a greenlet that pauses where it would communicate."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

from greenlet import GreenletExit, greenlet

from weft.core.errors import ConfigError, NodeLost, WeftError
from weft.core.leaving import left_by
from weft.core.pace import LearningRatePace
from weft.core.script_state import EVALUATE, JOIN, STARTED, ScriptState
from weft.core.seat import TWICE, Replica, Reported
from weft.core.strategy import Strategy
from weft.observe.records.same_samples import SameSamples
from weft.observe.records.same_stream import SameStream
from weft.sim.program import CALLS, BackwardDone, PortionWanted, ReportDone, Request, SaveAsked, StepDone
from weft.sim.shares import VirtualShares
from weft.sim.stage import Stage


@dataclass(slots=True)
class JoinCalled:
    """The script called weft.join."""

    replica: Replica
    strategy: Strategy | str | None
    compress: str | None = None


@dataclass(frozen=True)
class ScriptPlan:
    """What a script is about to do, as far as it has said."""

    num_epochs: int | None
    num_samples: int
    batch_size: int
    drop_last: bool


class ScriptSeat:
    """The seat of one simulated worker: its calls switch to the kernel and return when it switches back."""

    global_batch: int | None = None
    is_simulated = True
    is_plain = False
    survivor = None

    def __init__(
        self,
        rank: int,
        num_workers: int,
        seed: int,
        steps_max: int | None,
        shared: dict[object, Any],
        shares: VirtualShares | None = None,
        pace: LearningRatePace = LearningRatePace(),  # noqa: B008
    ) -> None:
        self.pace = pace
        self.saves = True
        self.is_probe = False
        self.rank = rank
        self.num_workers = num_workers
        self.seed = seed
        self.steps_max = steps_max
        self.face: object | None = None
        self.script = ScriptState(STARTED)
        """Its simulation moves it, once there is one."""
        self._joined: JoinCalled
        self.runs_closures = False
        self.deals_portions = False
        self.planned: ScriptPlan | None = None
        self.same_samples = SameSamples(num_workers)
        self.same_stream = SameStream()
        """Those of all workers, once they are put on one stage."""
        self.say: Callable[[str], None] = print
        """Shows the user what there is to know."""
        self._told: list[str] = []
        self.kernel: greenlet | None = None
        self._shared = shared
        self._shares = shares or VirtualShares(num_workers)
        self.block_steps = self._shares.every
        self.steals = self._shares.steals
        self._num_steps = 0
        self._num_shares = 0

    def _ask(self, request: Request | JoinCalled) -> None:
        """Let the kernel have a request; returns when the script may go on.

        A reported function runs in the kernel itself, and a hook of backward in no greenlet that could switch.
        """
        if not isinstance(request, JoinCalled):
            self.script.check(CALLS[type(request)])
        assert self.kernel is not None
        self.kernel.switch(request)

    def join(self, replica: Replica, strategy: Strategy | str | None, compress: str | None = None) -> None:
        if self.has_joined:
            raise ConfigError(TWICE)
        self.script.call(JOIN)
        self._joined = JoinCalled(replica, strategy, compress)
        self._ask(self._joined)

    @property
    def has_joined(self) -> bool:
        return self.script.at is not STARTED

    def join_more(self) -> None:
        self._ask(self._joined)

    def settle(self) -> None:
        """Replicas settled when they joined."""

    def gradient_filled(self, bucket: int, samples: float) -> None:
        raise AssertionError("a simulated backward has no time of its own, so nothing is filled before it has ended")

    def portions(self, num_portions: int, num_samples: int) -> Iterator[int] | None:
        if self.steals:
            return self._stolen(num_portions, num_samples)
        return self._portions(num_portions) if self.deals_portions else None

    def _stolen(self, num_portions: int, num_samples: int) -> Iterator[int]:
        share, self._num_shares = self._num_shares, self._num_shares + 1
        while self._num_steps != self.steps_max:
            portion = self._shares.take(self.rank, share, num_samples, num_portions)
            if portion is None:
                return
            yield portion

    def fractions(self, share: int, num_samples: int, block: int) -> Sequence[float]:
        return self._shares.ask(self.rank, share, num_samples, block)

    def _portions(self, num_portions: int) -> Iterator[int]:
        share, self._num_shares = self._num_shares, self._num_shares + 1
        while self._num_steps != self.steps_max:
            wanted = PortionWanted(share, num_portions)
            self._ask(wanted)
            if wanted.portion is None:
                return
            yield wanted.portion

    def tell(self, text: str) -> None:
        if self.rank == 0:
            self._told.append(text)

    def compare_first(self, digest: str) -> None:
        told = self.same_samples.hear(self.rank, digest)
        if told is not None:
            self._told.append(told)

    def compare_stream(self, digest: str) -> None:
        self.same_stream.hear(self.rank, digest)

    def show_told(self) -> None:
        """Show what there was to tell, outside of the script, whose output is its own."""
        while self._told:
            self.say(self._told.pop(0))

    def note(self, activity: str) -> None:
        """Reading takes no time of its own here."""

    def check_closures(self) -> None:
        if not self.runs_closures:
            raise ConfigError(
                "this optimizer computes gradients again and again in its step, which this strategy cannot share.\n"
                "  Use the strategy allreduce or ensemble, or an optimizer such as SGD or Adam."
            )

    def backward_finished(self, samples: float) -> None:
        if self._num_steps == self.steps_max:  # a loop of the script's own, which no share has ended
            raise GreenletExit
        self._ask(BackwardDone(samples))

    def step_finished(self, samples: float, loss: float | None, *, is_repeat: bool = False) -> None:
        self._num_steps += 1
        self._ask(StepDone(samples, loss, is_repeat))

    def report(self, epoch: int, numbers: Reported) -> None:
        self._ask(ReportDone(epoch, numbers))

    def save(self, path: str, model: str, *, of: int | None = None, allow_nan: bool = False) -> None:
        self._ask(SaveAsked(path, model, of, allow_nan))

    def once(self, key: object, load: Callable[[], Any]) -> Any:
        if key not in self._shared:
            self._shared[key] = load()
        return self._shared[key]

    def plan(self, num_epochs: int | None, num_samples: int, batch_size: int, drop_last: bool) -> None:
        self.planned = ScriptPlan(num_epochs, num_samples, batch_size, drop_last)


class FreshLoader(SourceFileLoader):
    """Compiles a script anew, as `python SCRIPT` does: cached code could be that of an edit in the same second."""

    def path_stats(self, path: str) -> Any:
        raise OSError("no cached code, please")


class ScriptProgram:
    """Runs a script up to its next request, on a stage that it shares with all other workers."""

    def __init__(self, path: str, seat: ScriptSeat, stage: Stage) -> None:
        self._path = path
        self._seat = seat
        self._stage = stage
        self._greenlet = greenlet(self._run)
        self._first: Any = None

    def _run(self) -> None:
        loader = FreshLoader("__main__", self._path)
        module = ModuleType("__main__")
        module.__file__ = self._path
        sys.modules["__main__"] = module
        arguments = sys.argv[1:]
        try:
            loader.exec_module(module)
        except SystemExit as stop:
            left = left_by(stop, arguments, has_joined=self._seat.has_joined)
            if left is not None:
                raise left from None

    def begin(self) -> bool:
        """Let the script run to its first request, by which it has said all that its world depends on; True if it has
        another model, which must begin as worker 0's does before the script goes on."""
        request = self.resume()
        if isinstance(request, JoinCalled):
            return True
        self._first = request
        return False

    def resume(self) -> Any:
        """Let the script go on; its next request, or None when it has ended."""
        if self._first is not None:
            first, self._first = self._first, None
            return first
        self._seat.kernel = greenlet.getcurrent()
        request = self._stage.enter(self._seat.rank, self._seat, self._greenlet.switch)
        self._seat.show_told()
        return None if self._greenlet.dead else request

    def evaluate(self, function: Callable[[], Any]) -> float:
        """The number that a reported callable gives, run as this worker."""
        rank = self._seat.rank
        with self._seat.script.during(EVALUATE):
            try:
                return float(self._stage.enter(rank, self._seat, function))
            except WeftError:
                raise
            except Exception as error:
                what = type(error).__name__
                raise NodeLost(f"worker {rank} raised {what} in a reported callable: {error}") from error

    def follow(self, script: ScriptState) -> None:
        """Stand where the node of a simulation does, from now on."""
        self._seat.script = script

    def abandon(self) -> None:
        """End a script that shall not go on; its `finally` blocks run."""
        if not self._greenlet.dead:
            self._stage.enter(self._seat.rank, self._seat, self._greenlet.throw)
