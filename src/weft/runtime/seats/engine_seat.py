"""The base of all seats of real workers: hears the engine, reports, saves, loads by weft.once, and ends in order."""

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
from weft.core.script_state import ENDED, EXIT, JOIN, RUNNING, STARTED, ScriptState
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
from weft.runtime.seats.survivor import Survivor

HEARTBEAT_TICKS = 10
"""The heartbeat sends a status once in this many checks for pauses."""
HALT_EXIT_CODE = 3
"""Exit code of a worker that ended because another worker failed, or its engine was gone."""
OTHERS_TO_JOIN = "the other workers to join"
"""What a worker waits for until it gets `Welcome`."""
STDERR = 2


class EngineSeat:
    """One worker's seat under an engine. Calls that need an answer block in `_wait`; LiveSeat drives meanwhile."""

    is_simulated, leaves = False, False
    survivor: Survivor | None = None

    def __init__(self, job: WorkerJob, channel: Channel, sharing: Sharing) -> None:
        self.job = job
        self.rank, self.num_workers = job.rank, job.num_workers
        self.seed = job.seed
        self.steps_max, self.global_batch = job.steps_max, job.global_batch
        self.pace, self.saves, self.is_probe = job.pace, job.saves, job.is_probe
        self.face: object | None = None
        self.script = ScriptState(STARTED)
        self._pauses = Pauses()
        self.activity_clock = ActivityClock(keeps_spans=job.traces, pauses=self._pauses)
        self.tracer = Tracer(self.activity_clock) if job.traces else None
        self.metrics = Metrics(job.rank, self.activity_clock)
        self.shares = EngineShares(job, channel.send, self._expect, self.activity_clock)
        self.block_steps, self.steals = self.shares.block_steps, self.shares.steals
        self._channel = channel
        self._once = Once(job.descriptors.once, sharing, channel.send, self._expect)
        self._inbox: list[Message] = []
        """Messages of the engine that `_expect` has not taken yet."""
        self._replica: Replica
        self._step = 0
        self._num_shares = 0
        """Number of shares from which the script has taken portions; this worker may have got none of them."""
        self._num_reports, self._num_saves = 0, 0
        self._open_reports: dict[int, tuple[int, Reported]] = {}
        self._open_saves: dict[int, tuple[str, str, int | None, bool]] = {}
        """By number: the path, the model's name, `of`, and whether numbers that are not finite are allowed."""
        self._score = Score("loss")
        self._best = 0
        """The rank with the best score, as the engine told it last."""
        self._pauses_at_step = False
        self.await_engine: Callable[[], None] | None = None
        """Blocks until the host agent has exited; set where a launcher (Slurm) would kill it once workers exit."""
        self._waits_for: str | None = None
        """What the script waits for, if it has waited long enough for the engine to be told."""
        chance = Random(f"hiccups/{job.seed}/{job.rank}")
        self._stretching = Stretching(job.slow, job.hiccups, chance, self.activity_clock, self.metrics)

    def _check_first_join(self) -> None:
        if self.has_joined:
            raise ConfigError(TWICE)

    def _expect_welcome(self) -> Welcome:
        """Block until the scripts of all workers have called weft.join; what the engine then says."""
        welcome: Welcome = self._expect(Welcome)
        self.script.call(JOIN)
        return welcome

    def _wait(self, done: Callable[[], bool]) -> None:
        """Block until `done()` is true, handling the engine's messages meanwhile."""
        if done():
            return
        with self.activity_clock.during(WAITS):
            while not done():
                for message in self._channel.receive(wait=True):
                    self._hear(message)
                self._check_open()

    def _listen(self) -> None:
        """Take the engine's messages that have arrived, without blocking."""
        for message in self._channel.receive(wait=False):
            self._hear(message)
        self._check_open()

    def _check_open(self) -> None:
        if self._channel.is_lost:
            self.lose_engine()

    def lose_engine(self) -> None:
        """The engine is gone: print that, since no other process may be left to say it, and exit."""
        with suppress(OSError):  # standard error may be a pipe without a reader
            line = f"weft: worker {self.rank} ends: its engine (pid {self._channel.maker}) is gone or has hung up.\n"
            os.write(STDERR, line.encode())
        os._exit(HALT_EXIT_CODE)

    def _hear(self, message: Message) -> None:
        if isinstance(message, Halt):
            self._channel.finish()
            self._channel.send(Halted(self._step, self.waiting_for()))
            self.leave()
            os._exit(HALT_EXIT_CODE)
        elif isinstance(message, StepAsked):
            self._pauses_at_step = True
            self._channel.send(StepTold(self._step))
        elif isinstance(message, LeaveAt):
            self.steps_max = message.step if self._keeps_step else min(message.step, self._last_step)
            self._pauses_at_step, self.leaves = False, True
        else:
            self._inbox.append(message)

    def _expect(self, kind: type[Any]) -> Any:
        """Block until the engine has sent a message of type `kind`, and take it out of the inbox."""
        self._wait(lambda: any(isinstance(message, kind) for message in self._inbox))
        found = next(message for message in self._inbox if isinstance(message, kind))
        self._inbox.remove(found)
        return found

    def fractions(self, share: int, num_samples: int, block: int) -> Sequence[float]:
        return self.shares.fractions(share, num_samples, block)

    @property
    def _keeps_step(self) -> bool:
        """Whether all workers have to end after the same step."""
        return True

    @property
    def _last_step(self) -> int:
        """Number of steps that this worker will have made when the current one has ended."""
        return self._step + 1

    @property
    def _is_over(self) -> bool:
        return self.steps_max is not None and self._step >= self.steps_max

    @property
    def has_joined(self) -> bool:
        """The scripts of all workers have called weft.join."""
        return self.script.at is not STARTED

    def waiting_for(self) -> str:
        """A phrase for messages: what this worker waits for."""
        return "the engine" if self.has_joined else OTHERS_TO_JOIN

    def _check_over(self) -> None:
        """Raise SystemExit in the script if the run is over but the script's own loop is not."""
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
        """Tell the engine at once of a gradient that is not finite."""
        self.metrics.left_out = left_out
        self._send_status()

    def _observe(self) -> None:
        """A hook for subclasses: read counters into the metrics before a status is sent."""

    def _tell(self, waiting_for: str | None = None) -> None:
        """Send a status and hear the engine, at most once in TELL_EVERY_S."""
        if self.has_joined and self.metrics.is_due():
            self._listen()
            self._observe()
            self._waits_for = waiting_for
            self._send_status()

    def _send_status(self) -> None:
        waits_for = self._waits_for  # read once: the script's thread may change it meanwhile
        doing = ENDED if self.script.at is ENDED else RUNNING
        if waits_for is not None:
            doing = f"waits for {waits_for}"
        self._channel.send(self.metrics.status(doing, is_waiting=waits_for is not None), droppable=True)

    def _begin(self) -> None:
        """All workers have joined: start the thread that finds pauses and sends statuses, however long a step takes."""
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
        """Send a report to the engine; if the engine chooses this worker, run the report's callables."""
        number, self._num_reports = self._num_reports, self._num_reports + 1
        callables = [name for name, value in numbers.items() if callable(value)]
        plain = {name: value for name, value in own.items() if name not in callables}
        self._open_reports[number] = (epoch, numbers)
        self._tell_replica(number)
        self._channel.send(ReportedMessage(number, epoch, plain, callables, self._score.badness))
        if callables and self._is_mine_to_do():
            self._evaluate(number)
        elif self.rank:  # worker 0 keeps it: the engine may ask for it at the end
            del self._open_reports[number]

    def _tell_replica(self, number: int) -> None:
        """Send digests of the replica to the engine, before a reported callable may change the model for a while."""
        digests = self._digests()
        if digests and len(set(self.job.hosts)) > 1:
            self._channel.send(ReplicaTold(number, self._step, digests, self._sketches(), processor_kind()))
        elif digests:
            self._channel.send(ReplicaTold(number, self._step, digests))

    def _digests(self) -> dict[str, int]:
        """Digests of this worker's tensors by name, where they must equal the other workers'; else empty."""
        return {}

    def _sketches(self) -> dict[str, list[float]]:
        """Sketches of the tensors that `_digests` names."""
        return {}

    @property
    def _distance(self) -> float | None:
        """The consensus distance if it is known without measuring; else None."""
        return 0.0 if self.num_workers == 1 else None

    def _evaluate(self, number: int) -> None:
        """Run the callables of report `number` on the result model, and tell the engine their values."""
        epoch, numbers = self._open_reports.pop(number)
        with self.metrics.reporting():
            told, consensus = self._on_result({name: value for name, value in numbers.items() if callable(value)})
        self._channel.send(Evaluated(number, epoch, told, consensus))

    def _on_result(self, functions: Mapping[str, Callable[[], float]]) -> tuple[dict[str, float], float | None]:
        """The values of the script's `functions` while its model is the result model, and the consensus distance (None:
        the engine finds it)."""
        return {name: float(function()) for name, function in functions.items()}, self._distance

    def _is_mine_to_do(self) -> bool:
        """Whether this worker is to evaluate a report or write a save; blocks until the engine has decided."""
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
        """Write models to `path`; if `gives_back`, send the file, too. `number` is None for a worker's own model."""
        try:
            self._write(path, models, of, allow_nan=allow_nan)
        except OSError as error:  # a full disk must not end the training
            self._channel.send(Unsaved(not_saved(path, error), number))
            return
        if self.job.gives_back:
            give_back(path, self._channel.send, self._expect)

    def _models(self, model: str) -> Mapping[str, Sequence[Any]]:
        """The replicas that the name `model` stands for; here, all are equal."""
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
        """The script has ended: answer the other workers until all have ended, then conclude."""
        if not self.has_joined:
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
        if self.rank == finish.first:
            for number in (number for number in finish.reports if number in self._open_reports):
                self._evaluate(number)
        for number in finish.saves:
            path, model, of, allow_nan = self._open_saves[number]
            self._bring(number, path, self._models(model), of, allow_nan=allow_nan)
        self._channel.send(self._conclude(is_first=self.rank == finish.first))
        self._expect(Conclude)
        self._tell_trace(droppable=False)
        self._say_goodbye()
        self._channel.finish()

    def _say_ended(self) -> None:
        """Note that the script has ended, and tell the other workers."""
        self.script.call(EXIT)

    def _conclude(self, *, is_first: bool) -> Concluded:
        """The worker's last message; the first of those that are left measures what is measured once."""
        return Concluded(self._distance, None)

    def _say_goodbye(self) -> None:
        """Say goodbye to the other processes, so that they do not take this one's end for a failure."""

    def fail(self, error: BaseException) -> None:
        """Tell the engine why this worker cannot go on."""
        self._channel.finish()
        self._channel.send(failure(error, self._step, self.waiting_for()))

    def leave(self) -> None:
        """Called before this process exits: if `await_engine` is set, wait until the host agent has ended."""
        if self.await_engine is not None:
            self._channel.finish()
            with suppress(TransportError):  # the host agent is gone already
                self._channel.send(Leaving())
            self.await_engine()
