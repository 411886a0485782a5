"""What a supervisor does when workers are lost, if the job says that others go on: views, losses, and replacement."""

import time
from collections.abc import Callable, Mapping, Sequence

from weft.config.on_loss import REPLACE, STOP
from weft.core.errors import WeftError
from weft.engines.real.exit_status import how_it_ended
from weft.engines.real.failure import describe, is_silent_death
from weft.engines.real.losses import Losses
from weft.engines.real.observer import Observer
from weft.engines.real.replacement import Replacement, ToReplacement
from weft.engines.real.session import RunSession
from weft.engines.real.views import Views
from weft.engines.real.watchdog import Watchdog
from weft.engines.real.worker_record import WorkerRecord
from weft.runtime.messages import Message
from weft.runtime.view_messages import Frozen, LaidOut, ViewTaken

ToSurvival = LaidOut | Frozen | ViewTaken | ToReplacement


class Survival:
    """The members of one run. `send` takes messages to workers, `end` kills one, `start` forks a newcomer, and `states`
    are the states of living processes in /proc."""

    def __init__(
        self,
        on_loss: str,
        workers: Callable[[], Sequence[WorkerRecord]],
        session: RunSession,
        watchdog: Watchdog,
        observer: Observer,
        *,
        send: Callable[[int, Message], None],
        end: Callable[[int], None],
        start: Callable[[int], None],
        states: Callable[[], Mapping[int, str]],
    ) -> None:
        self._on_loss = on_loss
        self._workers = workers
        self._session, self._watchdog, self._observer = session, watchdog, observer
        self._start, self._end, self._states = start, end, states
        self.views, self.losses = Views(session.num_workers, send), Losses()
        self._replacement = Replacement(self.views, send, self._try_to_start, end, observer.on_tell)
        self._replacement.on_replaced = self._tell_replaced

    def members(self) -> list[WorkerRecord]:
        """The workers that take part."""
        return [worker for worker in self._workers() if worker.rank in self.views.members]

    def check(self, now_s: float, *, is_stopping: bool = False) -> None:
        """Let the others go on without workers whose processes have died, if the job says so. One that is stopped or
        silent for too long is killed first: it must not wake up among those who went on.

        Raises WeftError if the others cannot go on. Nobody is replaced in a run that is stopping.
        """
        if self._on_loss == STOP:
            return
        while stuck := self._watchdog.stuck(now_s, self._session.ended, self._states()):
            if not self.views.can_lose([stuck.rank]) or sum(not worker.lost for worker in self.members()) < 2:
                break
            self._workers()[stuck.rank].lost = stuck.cause
            self._watchdog.lose(stuck.rank)
            self._end(stuck.rank)
        if not self._session.has_begun:
            self._start_again(now_s)
            return
        dead = [worker for worker in self.members() if self._is_lost(worker)]
        self._session.tell_order([worker.rank for worker in dead])
        for worker in dead if self.views.can_lose([worker.rank for worker in dead]) else ():
            failed = "" if worker.failed is None else f"{worker.failed.error}: {worker.failed.text}"
            self._go_on_without(worker, worker.lost or failed or how_it_ended(worker.exit_code))
        if self._on_loss == REPLACE:
            self._replace(now_s, is_stopping=is_stopping)

    def _is_lost(self, worker: WorkerRecord) -> bool:
        """Whether a worker has died; or has ended its process before all had concluded, so that others may still fetch
        from it; or is a newcomer that could not take over what it needs."""
        if worker.is_alive:
            return False
        is_missed = worker.has_finished and not self._session.is_over
        return is_silent_death(worker) or is_missed or worker.rank in self._replacement.joining

    def _start_again(self, now_s: float) -> None:
        """Before all have joined, there is nothing that a worker whose process has died would have to take over."""
        for worker in self.members() if self._on_loss == REPLACE else ():
            if is_silent_death(worker) and self._replacement.may_start(worker.rank, now_s):
                cause = worker.lost or how_it_ended(worker.exit_code)
                self._observer.on_tell(f"worker {worker.rank} is started again {worker.moment}: {cause}")
                self._start_newcomer(worker.rank)

    def _go_on_without(self, worker: WorkerRecord, cause: str) -> None:
        loss = self.losses.add(worker, cause, self._session.so_far_s)
        self._observer.on_tell(f"{loss}; {sum(other.is_alive for other in self.members())} go on")
        self._observer.on_lost(worker.rank)
        if self._on_loss == REPLACE:
            self._replacement.lose(worker.rank)
        self.views.lose(worker.rank, str(loss))
        self._watchdog.lose(worker.rank)
        self._session.lose(worker.rank)  # raises if the replicas that are left differ
        self.let_ended_leave()

    def let_ended_leave(self) -> None:
        """After a loss, scripts may make different numbers of steps, unless replicas are equal: ended ones leave."""
        for rank in self._session.ended if self.losses.all and not self._session.is_alike else ():
            self.views.leave(rank)

    def _replace(self, now_s: float, *, is_stopping: bool) -> None:
        for rank in sorted(self._replacement.coming):
            worker = self._workers()[rank]
            if not worker.is_alive:
                self._replacement.fail(rank, str(describe(worker, ())))
        self._replacement.turn(now_s, is_ending=bool(self._session.ended) or is_stopping)

    def _start_newcomer(self, rank: int) -> None:
        self._session.expect_newcomer(rank)
        self._start(rank)

    def _try_to_start(self, rank: int) -> None:
        """Start a newcomer; if the system has no process for it, the others go on without."""
        try:
            self._start_newcomer(rank)
        except WeftError as error:
            self._replacement.give_up(str(error))

    def refuse(self, worker: WorkerRecord, error: WeftError) -> WeftError | None:
        """A worker has said what cannot be: the error that ends the run, or None if only this newcomer ends."""
        if worker.rank in self.views.members or worker.rank not in self._replacement.coming:
            return error
        self._observer.on_tell(f"worker {worker.rank} cannot be replaced by what its script does now: {error}")
        self._end(worker.rank)
        return None

    def _welcome(self, rank: int) -> None:
        self._watchdog.welcome(rank)
        self._session.welcome_newcomer(rank)

    def _tell_replaced(self, ranks: list[int]) -> None:
        for rank in ranks:
            now_s = self._session.so_far_s
            loss = self.losses.replaced(rank, now_s)
            self._observer.on_tell(f"worker {rank} is replaced after {now_s - loss.detected_s:.1f} s")
            self._observer.on_replaced(rank)

    def others_may_go_on(self, worker: WorkerRecord) -> bool:
        """Whether a worker that died while training began is to be left behind, once the others have laid out."""
        if worker.rank in self._replacement.joining:
            return True
        others = any(other.is_alive for other in self.members() if other is not worker)
        may = self._on_loss != STOP and self._session.has_begun and others
        return may and is_silent_death(worker) and self.losses.is_fresh(worker.rank, time.perf_counter())

    def hear(self, worker: WorkerRecord, message: ToSurvival) -> None:
        """Take a worker's message about members that change."""
        rank = worker.rank
        if isinstance(message, LaidOut):
            self.views.lay_out(rank)
            self._replacement.lay_out(rank)
        elif isinstance(message, Frozen):
            if self.views.hear(rank, message):
                self.losses.told(self._session.so_far_s)
                for newcomer in self.views.newcomers:
                    self._welcome(newcomer)
        elif isinstance(message, ViewTaken):
            self.views.take(rank, message)
        else:
            self._replacement.hear(rank, message, time.perf_counter())
