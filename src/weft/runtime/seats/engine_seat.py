"""What every seat behind an engine does alike: listens to the engine, reports, saves, loads once, ends in order."""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from weft.core.activity import WAITS
from weft.core.consensus import END
from weft.core.errors import ConfigError, TransportError
from weft.core.score import Score
from weft.core.script_state import ENDED, EXIT, RUNNING, ScriptState
from weft.core.seat import MINE, TWICE, Replica, Reported, saved_alone
from weft.model_files import not_saved
from weft.observe.records.left_out import LeftOut
from weft.runtime.channel import Channel
from weft.runtime.measure.activity_clock import ActivityClock
from weft.runtime.measure.metrics import Metrics
from weft.runtime.measure.pauses import TICK_S, Pauses
from weft.runtime.measure.processor import processor_kind
from weft.runtime.measure.tracer import Tracer
from weft.runtime.messages import (
    Conclude,
    Concluded,
    Decided,
    Evaluated,
    Halt,
    Halted,
    LeaveAt,
    Leaving,
    Message,
    Planned,
    ReplicaTold,
    Saves,
    ScriptCompleted,
    StepAsked,
    StepTold,
    Welcome,
    WorkerJob,
)
from weft.runtime.messages import Reported as ReportedMessage
from weft.runtime.seats.failure import failure
from weft.runtime.seats.once import Once, Sharing
from weft.runtime.seats.returned_files import Unsaved, give_back
from weft.runtime.seats.shares import EngineShares
from weft.runtime.seats.slowdown import Stretching

HEARTBEAT_TICKS = 10
"""A sign of life comes with every so many looks for pauses."""
HALT_EXIT_CODE = 3
"""A worker that ended because another one failed."""
OTHERS_TO_JOIN = "the other workers to join"
"""What a worker waits for that has not been welcomed."""
STDERR = 2


class EngineSeat:
    """One worker's seat behind an engine. Calls that need an answer wait for it in `_wait`, which may drive."""

    is_simulated = False

    def __init__(self, job: WorkerJob, channel: Channel, sharing: Sharing) -> None:
        self.job = job
        self.rank = job.rank
        self.num_workers = job.num_workers
        self.seed = job.seed
        self.steps_max = job.steps_max
        self.global_batch = job.global_batch
        self.pace = job.pace
        self.saves = job.saves
        self.is_probe = job.is_probe
        self.face: object | None = None
        self.script = ScriptState()
        self._pauses = Pauses()
        self.activity_clock = ActivityClock(keeps_spans=job.traces, pauses=self._pauses)
        self.tracer = Tracer(self.activity_clock) if job.traces else None
        self.metrics = Metrics(job.rank, self.activity_clock)
        self.shares = EngineShares(job, channel.send, self._expect, self.activity_clock)
        self.block_steps = self.shares.block_steps
        self.steals = self.shares.steals
        self._channel = channel
        self._once = Once(job.descriptors.once, sharing, channel.send, self._expect)
        self._inbox: list[Message] = []
        """Answers of the engine that a call waits for."""
        self._replica: Replica
        self._welcome: Welcome | None = None
        self._step = 0
        self._num_shares = 0
        """Those whose portions were handed out: this worker may have had none."""
        self._num_reports = 0
        self._num_saves = 0
        self._open_reports: dict[int, tuple[int, Reported]] = {}
        self._open_saves: dict[int, tuple[str, str, int | None, bool]] = {}
        """By number: the path, the word for the model, and whether it may be not finite."""
        self._score = Score("loss")
        self._best = 0
        """The worker with the best score, as far as the engine has told."""
        self._pauses_at_step = False
        self.has_ended = False
        """What comes after does not concern the engine any more."""
        self.await_engine: Callable[[], None] | None = None
        """Waits until the engine has said its last words, where it would not outlive its workers."""
        self._waits_for: str | None = None
        """What it has waited for so long that the engine was told."""
        chance = Random(f"hiccups/{job.seed}/{job.rank}")
        self._stretching = Stretching(job.slow, job.hiccups, chance, self.activity_clock, self.metrics)

    def _check_first_join(self) -> None:
        if self._welcome is not None:
            raise ConfigError(TWICE)

    def _wait(self, done: Callable[[], bool]) -> None:
        """Return when something holds; here, by listening to the engine."""
        if done():
            return
        with self.activity_clock.during(WAITS):
            while not done():
                for message in self._channel.receive(wait=True):
                    self._hear(message)
                self._check_open()

    def _listen(self) -> None:
        """Take what the engine has said."""
        for message in self._channel.receive(wait=False):
            self._hear(message)
        self._check_open()

    def _check_open(self) -> None:
        if self._channel.is_closed and not self.has_ended:
            self.lose_engine()

    def lose_engine(self) -> None:
        """Nobody is left to tell, and nobody else may be left who says why this process ends."""
        with suppress(OSError):  # nor who reads it
            line = f"weft: worker {self.rank} ends: its engine (pid {self._channel.maker}) is gone or has hung up.\n"
            os.write(STDERR, line.encode())
        os._exit(HALT_EXIT_CODE)

    def _hear(self, message: Message) -> None:
        if isinstance(message, Halt):
            self.has_ended = True
            self._channel.send(Halted(self._step, self.waiting_for()))
            self.leave()
            os._exit(HALT_EXIT_CODE)
        elif isinstance(message, StepAsked):
            self._pauses_at_step = True
            self._channel.send(StepTold(self._step))
        elif isinstance(message, LeaveAt):
            self.steps_max = message.step if self._keeps_step else min(message.step, self._last_step)
            self._pauses_at_step = False
        else:
            self._inbox.append(message)

    def _expect(self, kind: type[Any]) -> Any:
        """Wait for the engine's answer of this kind."""
        self._wait(lambda: any(isinstance(message, kind) for message in self._inbox))
        found = next(message for message in self._inbox if isinstance(message, kind))
        self._inbox.remove(found)
        return found

    def fractions(self, share: int, num_samples: int, block: int) -> Sequence[float]:
        return self.shares.fractions(share, num_samples, block)

    @property
    def _keeps_step(self) -> bool:
        """This worker may only end after the same step as the others."""
        return True

    @property
    def _last_step(self) -> int:
        """How many steps this worker will have made when the one under way has ended."""
        return self._step + 1

    @property
    def _is_over(self) -> bool:
        return self.steps_max is not None and self._step >= self.steps_max

    @property
    def has_joined(self) -> bool:
        """Its script has called weft.join, and all others' have."""
        return self._welcome is not None

    def waiting_for(self) -> str:
        """One sentence: what this worker needs to go on."""
        return OTHERS_TO_JOIN if self._welcome is None else "the engine"

    def _check_over(self) -> None:
        """End a loop of the script's own, which no share has ended."""
        if self._is_over:
            raise SystemExit(0)

    def _count_step(self, samples: float, loss: float | None) -> None:
        self.metrics.step(samples, loss)
        self._score.remember(loss)
        if self.tracer is not None:
            self.tracer.step(self._step)

    def tell(self, text: str) -> None:
        if self.rank == 0:
            self.metrics.notices.append(text)

    def compare_first(self, digest: str) -> None:
        self.metrics.first_gradient = digest

    def compare_stream(self, digest: str) -> None:
        self.metrics.first_item = digest

    def note(self, activity: str) -> None:
        self.activity_clock.turn_to(activity)

    def _leave_out(self, left_out: LeftOut) -> None:
        """Let the engine know at once of a gradient that is not finite."""
        self.metrics.left_out = left_out
        self._send_status()

    def _observe(self) -> None:
        """Read counters into the metrics before they are told."""

    def _tell(self, waiting_for: str | None = None) -> None:
        """Let the engine know how this worker does, and hear what it has to say, some times a second."""
        if self._welcome is not None and self.metrics.is_due():
            self._listen()
            self._observe()
            self._waits_for = waiting_for
            self._send_status()

    def _send_status(self) -> None:
        waits_for = self._waits_for  # the script's thread may change it
        doing = ENDED if self.script.at is ENDED else RUNNING
        if waits_for is not None:
            doing = f"waits for {waits_for}"
        self._channel.send(self.metrics.status(doing, is_waiting=waits_for is not None), droppable=True)

    def _begin(self) -> None:
        """All have joined: show signs of life from now on, however long an iteration takes."""
        self.metrics.begin()
        self._stretching.begin()
        threading.Thread(target=self._beat, name="weft heartbeat", daemon=True).start()

    def _beat(self) -> None:
        self._pauses.begin()
        while not self._channel.is_closed:
            for _ in range(HEARTBEAT_TICKS):
                time.sleep(TICK_S)
                self._pauses.check()
            try:
                self._send_status()
                self._tell_trace(droppable=True)
            except TransportError:  # the engine is gone, which the other threads notice by themselves
                return

    def _tell_trace(self, *, droppable: bool) -> None:
        if self.tracer is not None:
            self.tracer.tell(lambda told: self._channel.send(told, droppable=droppable))

    def _report(self, epoch: int, own: dict[str, float], numbers: Reported) -> None:
        """Tell the engine of a report; the last worker to do so runs its callables."""
        number, self._num_reports = self._num_reports, self._num_reports + 1
        callables = [name for name, value in numbers.items() if callable(value)]
        plain = {name: value for name, value in own.items() if name not in callables}
        self._open_reports[number] = (epoch, numbers)
        self._tell_replica(number)
        self._channel.send(ReportedMessage(number, epoch, plain, callables, self._score.badness))
        if callables and self._is_mine_to_do():
            self._evaluate(number)
        elif self.rank:  # worker 0 may be asked for it at the end
            del self._open_reports[number]

    def _tell_replica(self, number: int) -> None:
        """Let the engine compare the replicas, before a reported callable may change this one for a while."""
        digests = self._digests()
        if digests and len(set(self.job.hosts)) > 1:
            self._channel.send(ReplicaTold(number, self._step, digests, self._sketches(), processor_kind()))
        elif digests:
            self._channel.send(ReplicaTold(number, self._step, digests))

    def _digests(self) -> dict[str, int]:
        """Of this worker's tensors, where all workers' are to be equal."""
        return {}

    def _sketches(self) -> dict[str, list[float]]:
        """Of the same tensors."""
        return {}

    @property
    def _distance(self) -> float | None:
        """How far the replicas are apart, where that needs no looking."""
        return 0.0 if self.num_workers == 1 else None

    def _evaluate(self, number: int) -> None:
        """Run a report's callables on the result model."""
        epoch, numbers = self._open_reports.pop(number)
        with self.metrics.reporting():
            told, consensus = self._on_result({name: value for name, value in numbers.items() if callable(value)})
        self._channel.send(Evaluated(number, epoch, told, consensus))

    def _on_result(self, functions: Mapping[str, Callable[[], float]]) -> tuple[dict[str, float], float | None]:
        """What functions of the script give while its model is the result, and how far the replicas are apart: None
        if the engine is to find out."""
        return {name: float(function()) for name, function in functions.items()}, self._distance

    def _is_mine_to_do(self) -> bool:
        """Wait for the engine's decision on a report or a save."""
        decided = self._expect(Decided)
        self._best = decided.best
        return bool(decided.is_yours)

    def save(self, path: str, model: str, *, of: int | None = None, allow_nan: bool = False) -> None:
        if model == MINE:
            self._bring(None, path, saved_alone(self._replica, MINE), of, allow_nan=allow_nan)
            return
        number, self._num_saves = self._num_saves, self._num_saves + 1
        self._open_saves[number] = path, model, of, allow_nan
        self._channel.send(Saves(number, self._score.badness, path))
        if self._is_mine_to_do():
            self._bring(number, path, self._models(model), of, allow_nan=allow_nan)

    def _bring(
        self, number: int | None, path: str, models: Mapping[str, Sequence[Any]], of: int | None, *, allow_nan: bool
    ) -> None:
        """Write models to a file, and give it to the engine if the user is elsewhere; `number` is None for its own."""
        try:
            self._write(path, models, of, allow_nan=allow_nan)
        except OSError as error:  # no training ends because a disk is full
            self._channel.send(Unsaved(not_saved(path, error), number))
            return
        if self.job.gives_back:
            give_back(path, self._channel.send, self._expect)

    def _models(self, model: str) -> Mapping[str, Sequence[Any]]:
        """What a word for a model stands for; here, all models are equal."""
        return saved_alone(self._replica, model, self.num_workers)

    def _write(self, path: str, models: Mapping[str, Sequence[Any]], of: int | None, *, allow_nan: bool) -> None:
        with self.metrics.reporting():
            self._replica.save(path, models, of=of, allow_nan=allow_nan)

    def once(self, key: object, load: Callable[[], Any]) -> Any:
        return self._once.get(key, load)

    def plan(self, num_epochs: int | None, num_samples: int, batch_size: int, drop_last: bool) -> None:
        if self.rank == 0:
            self._channel.send(Planned(num_epochs, num_samples, batch_size, drop_last))

    def end(self) -> None:
        """The script has ended: answer the others until all have, then conclude."""
        if self._welcome is None:
            raise ConfigError(
                f"script '{self.job.script}' ended without calling weft.join.\n"
                "  Add worker = weft.join(model, optimizer) before its training loop."
            )
        if not self._step and not self._num_shares:
            raise ConfigError(
                f"script '{self.job.script}' joined but never stepped.\n"
                "  Call optimizer.step() (or worker.step() for arrays) in its training loop."
            )
        self._say_ended()
        self._observe()
        self._tell_replica(END)
        self._channel.send(ScriptCompleted(self.metrics.status(ENDED), self._score.badness))
        finish = self._expect(Conclude)
        self._best = finish.best
        if self.rank == 0:
            for number in finish.reports:
                self._evaluate(number)
            for number in finish.saves:
                path, model, of, allow_nan = self._open_saves[number]
                self._bring(number, path, self._models(model), of, allow_nan=allow_nan)
        self._channel.send(self._conclude())
        self._expect(Conclude)
        self._tell_trace(droppable=False)
        self._say_goodbye()
        self.has_ended = True

    def _say_ended(self) -> None:
        """Let the other workers know."""
        self.script.call(EXIT)

    def _conclude(self) -> Concluded:
        return Concluded(self._distance, None)

    def _say_goodbye(self) -> None:
        """Let the others know that this process is about to end, and that nothing is wrong."""

    def fail(self, error: BaseException) -> None:
        """Tell the engine why this worker cannot go on."""
        self.has_ended = True
        self._channel.send(failure(error, self._step, self.waiting_for()))

    def leave(self) -> None:
        """This process is about to end: let an engine that ends with its workers say its last words before."""
        if self.await_engine is not None:
            self.has_ended = True
            with suppress(TransportError):  # it is gone already
                self._channel.send(Leaving())
            self.await_engine()
