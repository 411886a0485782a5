"""A seat whose worker drives: the script's thread while the script waits in a call, else the background driver."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from weft.core.script_state import ENDED
from weft.runtime.background import BackgroundDriver
from weft.runtime.channel import Channel
from weft.runtime.messages import WorkerJob
from weft.runtime.seats.before_training import BeforeTraining
from weft.runtime.seats.engine_seat import EngineSeat
from weft.runtime.seats.once import Sharing
from weft.runtime.waiting import Waiting
from weft.runtime.worker_runtime import WorkerRuntime


class DrivingAlone:
    """The context of the script's thread where no other thread drives: it only holds the lock, which is much cheaper
    than a generator's context."""

    __slots__ = ("_lock", "_runtime")

    def __init__(self, lock: threading.RLock, runtime: WorkerRuntime) -> None:
        self._lock = lock
        self._runtime = runtime

    def __enter__(self) -> WorkerRuntime:
        self._lock.acquire()
        return self._runtime

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class DrivingSeat(EngineSeat):
    """The thread that drives, the script's or the background's, holds `_lock`."""

    def __init__(self, job: WorkerJob, channel: Channel, sharing: Sharing) -> None:
        super().__init__(job, channel, sharing)
        self._lock = threading.RLock()
        self._runtime: WorkerRuntime
        self._awaited: WorkerRuntime | BeforeTraining = BeforeTraining()
        """What this worker drives when it waits, and asks for whom."""
        self._waiting = Waiting([channel.fileno()], self.activity_clock)
        self._background: BackgroundDriver | None = None

    def _observe(self) -> None:
        self._awaited.tell_counters(self.metrics)

    def _wait(self, done: Callable[[], bool]) -> None:
        """Drive until `done()` is true, holding the lock even in sleep: the background driver must not drive then."""
        with self._lock:
            driver, waiting = self._awaited.driver, self._waiting
            while not done():
                if driver.hurry():
                    waiting.resume()
                    continue
                self._pause(driver.progress, driver.next_due_s, driver.may_move)
            self._go_on()

    def _wait_words(self, done: Callable[[], bool]) -> None:
        """Block until `done()`, which reads words of the arena, is true. Does not drive: an action is under way."""
        while not done():
            self._pause(done, None, done)
        self._go_on()

    def _go_on(self) -> None:
        self._waiting.resume()
        self._waits_for = None

    def _pause(self, has_news: Callable[[], bool], due_s: float | None, may_have_news: Callable[[], bool]) -> None:
        self._waiting.pause(has_news, due_s, may_have_news)
        if self._waiting.has_slept:
            self._listen()
            self._awaited.check_alive()
            self._tell(self.waiting_for())

    def _drive_for_script(self) -> float | None:
        """One turn of the background driver: hear the engine and drive; returns the seconds until a timer is due."""
        self._listen()
        self._runtime.driver.progress()
        return self._runtime.driver.next_due_s

    def _fail_and_end(self, error: BaseException) -> None:
        self.fail(error)
        self.leave()
        os._exit(1)

    def depart(self) -> None:
        """This worker leaves a run that goes on: send its last status and what is left of its trace, and end."""
        self._observe()
        self._channel.send(self.metrics.status(ENDED))
        self._tell_trace(droppable=False)
        self._channel.finish()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)

    def _driving(self) -> AbstractContextManager[WorkerRuntime]:
        """A context in which the script's thread drives; at its end, the background driver, if any, takes over."""
        if self._background is None and len(self._runtime.driver.nodes) == 1:
            return DrivingAlone(self._lock, self._runtime)
        return self._driving_in_turn()

    @contextmanager
    def _driving_in_turn(self) -> Iterator[WorkerRuntime]:
        with self._lock:
            if self._background is not None:
                self._background.step_back()
            with self.metrics.driving(serves=len(self._runtime.driver.nodes) > 1):
                yield self._runtime
                if self._background is not None:
                    self._background.take_over()
                    self._runtime.driver.progress()
                    self._background.look_after()

    def waiting_for(self) -> str:
        """A phrase for messages: what this worker waits for."""
        return self._awaited.waiting_for()
