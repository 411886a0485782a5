"""What a supervisor does when workers are lost, if the job says that others go on: views, losses, and replacement."""

import time
from collections.abc import Callable, Mapping, Sequence

from weft.checkpoints.taking import CheckpointPlan
from weft.config.on_loss import REPLACE, STOP
from weft.core.errors import Deadlock, NodeLost, WeftError
from weft.engines.real import timeouts
from weft.engines.real.broken_links import BrokenLinks
from weft.engines.real.exit_status import how_it_ended
from weft.engines.real.failure import describe, is_silent_death
from weft.engines.real.losses import LEFT, LOST, QUARANTINED, Losses
from weft.engines.real.observer import Observer
from weft.engines.real.quarantine import Quarantine
from weft.engines.real.replacement import CAME_IN_AS_ONE_LEFT, Replacement
from weft.engines.real.rest import RunRest, ToRest
from weft.engines.real.run_checkpoints import RunCheckpoints, ToCheckpoints
from weft.engines.real.session import RunSession
from weft.engines.real.views import Views
from weft.engines.real.watchdog import Watchdog
from weft.engines.real.worker_record import WorkerRecord
from weft.runtime.messages import Message
from weft.runtime.view_messages import (
    CannotSurvive,
    Departs,
    Frozen,
    HandedOver,
    LaidOut,
    LinkBroken,
    LostBefore,
    PieceAsked,
    PieceHanded,
    Progressed,
    StepCommitted,
    Unreached,
    ViewTaken,
)

OfMembers = (
    CannotSurvive | LaidOut | Departs | Progressed | Frozen | ViewTaken | StepCommitted | Unreached | LinkBroken
)  # fmt: skip
ToSurvival = OfMembers | ToRest | HandedOver | PieceAsked | PieceHanded | ToCheckpoints
LEAVES = "SIGTERM"
"""Why a worker leaves in order."""
OUTLIVED = (
    "its script went on when those of the others had ended: what it counts began anew in it; name that by "
    "worker.keep(...)"
)


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
        checkpoints: CheckpointPlan | None = None,
        workers_min: int = 1,
    ) -> None:
        self._on_loss, self._workers_min = on_loss, workers_min
        self._cannot = ""
        """Why the first loss ends the run."""
        self._workers = workers
        self._session, self._watchdog, self._observer = session, watchdog, observer
        self._send, self._start, self._end, self._states = send, start, end, states
        self._lost_before: list[int] = []
        """Those of which the others were told before all had laid out."""
        self.views, self.losses = Views(session.num_workers, send), Losses()
        self.quarantine = Quarantine(on_loss, observer.on_tell)
        self._broken_links = BrokenLinks()
        self._rest = RunRest(self.views, send)
        self._replacement = Replacement(
            self.views, self._rest, send, self._try_to_start, self._end_newcomer, observer.on_tell
        )
        self._replacement.on_replaced = self._tell_replaced
        self._checkpoints: RunCheckpoints | None = None
        if checkpoints is not None:
            self._checkpoints = RunCheckpoints(checkpoints, self.views, self._rest, send, observer.on_tell)
        self._departing: list[int] = []
        """Workers that want to leave in order."""
        self.departed: dict[int, float] = {}
        """Those that leave, since when; their processes are about to end."""
        self.asks_to_stop = False
        """A worker wants to leave without which the run cannot go on."""

    def members(self) -> list[WorkerRecord]:
        """The workers that take part."""
        return [worker for worker in self._workers() if worker.rank in self.views.members]

    def check(self, now_s: float, *, is_stopping: bool = False) -> None:
        """Let the others go on without workers whose processes have died, if the job says so. One that is stopped or
        silent for too long is killed first: it must not wake up among those who went on.

        Raises WeftError if the others cannot go on. Nobody is replaced in a run that is stopping.
        """
        self._rest.turn(now_s)
        if self._rest.holds_all(now_s) or (self._checkpoints is not None and self._checkpoints.holds_workers):
            self._watchdog.hold(now_s)
        if self._checkpoints is not None and self._session.has_begun:
            self._checkpoints.turn(time.monotonic(), is_ending=bool(self._session.ended) or is_stopping)
        bad = self.quarantine.check(self.views.members, self._session.ended, self._cannot_spare())
        self._give_up_broken(now_s)
        if not self._can_lose():
            return
        for rank, cause in bad.items():
            if not self._workers()[rank].lost and not self._cannot_spare():
                self._workers()[rank].is_quarantined = True
                self._give_up(rank, cause)
        while stuck := self._watchdog.stuck(now_s, self._session.ended, self._states()):
            is_member = stuck.rank in self.views.members  # the members do without a newcomer
            if is_member and (not self.views.can_lose([stuck.rank]) or self._num_left() < 2):
                break
            self._give_up(stuck.rank, stuck.cause)
        if not self._session.has_begun:
            self._start_again(now_s)
            return
        self._let_depart(now_s, is_stopping=is_stopping)
        dead = [worker for worker in self.members() if self._is_lost(worker)]
        self._session.tell_order([worker.rank for worker in dead])
        if not self.views.can_lose([worker.rank for worker in dead]):
            self._tell_lost_before(dead)
            dead = []
        for worker in dead:
            failed = "" if worker.failed is None else f"{worker.failed.error}: {worker.failed.text}"
            outlived = OUTLIVED if self._has_outlived(worker) else ""
            self._go_on_without(worker, worker.lost or outlived or failed or how_it_ended(worker.exit_code))
        if self._on_loss == REPLACE:
            self._replace(now_s, is_stopping=is_stopping)

    def _num_left(self) -> int:
        return sum(not worker.lost for worker in self.members())

    def _can_lose(self) -> bool:
        """Whether the others may go on without a worker; tells the user, when one is dead, why they do not."""
        why = self._cannot
        num_left = sum(worker.is_alive or worker.has_finished for worker in self.members())
        if not why and num_left < self._workers_min:
            why = f"fewer than {self._workers_min} workers are left"
        if self._on_loss != STOP and why and any(is_silent_death(worker) for worker in self.members()):
            self._observer.on_tell(f"the others cannot go on: {why}")
            self._on_loss = STOP
        return self._on_loss != STOP

    def _cannot_spare(self) -> str:
        """Why the run would end if one more of its workers did; empty if the others would go on."""
        if self._on_loss == STOP:
            return "--on-loss replace would replace it"
        if self._cannot:
            return f"the others could not go on: {self._cannot}"
        num_left = sum(worker.is_alive and not worker.lost for worker in self.members()) - 1
        return f"fewer than {self._workers_min} workers would be left" if num_left < self._workers_min else ""

    def _give_up_broken(self, now_s: float) -> None:
        """Give workers up whose connections broke, though they live."""
        living = [worker.rank for worker in self.members() if worker.is_alive and not worker.lost]
        for rank, cause in self._broken_links.to_give_up(living, now_s).items():
            if why := self._cannot_spare():
                raise NodeLost(
                    f"worker {rank} cannot go on: {cause}, and {why}.\n  Look at the network between their machines."
                )
            if self.views.can_lose([rank]):
                self._give_up(rank, cause)

    def _give_up(self, rank: int, cause: str) -> None:
        """Kill a worker; when it is dead, the others go on without it."""
        self._workers()[rank].lost = cause
        self._watchdog.lose(rank)
        self._end(rank)

    def strikable(self) -> dict[int, int]:
        """Whom chaos may strike: living members and their pids, but for newcomers that are still coming in."""
        living = (worker for worker in self.members() if worker.is_alive)
        return {worker.rank: worker.pid for worker in living if worker.rank not in self._replacement.joining}

    def _is_lost(self, worker: WorkerRecord) -> bool:
        """Whether a worker has died; or has ended its process before all had concluded, so that others may still fetch
        from it; or is a newcomer that could not take over what it needs."""
        if worker.is_alive:
            return False
        is_missed = worker.has_finished and not self._session.is_over
        is_unfit = worker.rank in self._replacement.joining or self._has_outlived(worker)
        return is_silent_death(worker) or is_missed or is_unfit

    def _has_outlived(self, worker: WorkerRecord) -> bool:
        """Whether a newcomer's script waited for those of the others, which have all ended: it stops early by counters
        of its own, say, and a newcomer's begin anew."""
        waited = worker.failed is not None and worker.failed.error == Deadlock.__name__
        return waited and worker.rank in self._outlived()

    def _outlived(self) -> list[int]:
        """The newcomers whose scripts go on, if those of all others have ended."""
        newcomers, ended = self.losses.replaced_ranks, self._session.ended
        others = [rank for rank in self.views.members if rank not in newcomers]
        is_over = bool(others) and set(others) <= ended.keys()
        return [rank for rank in self.views.members if rank in newcomers and rank not in ended] if is_over else []

    def end_outlived(self) -> bool:
        """All workers wait: whether that is because of newcomers that wait for those that have ended, and are ended."""
        ranks = self._outlived()
        for rank in ranks:
            self._give_up(rank, OUTLIVED)
        return bool(ranks)

    def _start_again(self, now_s: float) -> None:
        """Before all have joined, there is nothing that a worker whose process has died would have to take over."""
        for worker in self.members() if self._on_loss == REPLACE else ():
            if is_silent_death(worker) and self._replacement.may_start(worker.rank, now_s):
                cause = worker.lost or how_it_ended(worker.exit_code)
                self._observer.on_tell(f"worker {worker.rank} is started again {worker.moment}: {cause}")
                self._start_newcomer(worker.rank)

    def _let_depart(self, now_s: float, *, is_stopping: bool) -> None:
        """Let workers leave that were sent SIGTERM, and replace them when their processes have ended. If the run would
        end without one, as without the last, it is to stop; in a run that is stopping all leave together."""
        for rank, since_s in list(self.departed.items()):
            if self._workers()[rank].is_alive:
                if now_s - since_s > timeouts.DEPART_S:
                    self._end(rank)
                continue
            del self.departed[rank]
            self.views.bury(rank, f"worker {rank} has ended")
            if self._on_loss == REPLACE:
                self._replacement.want(rank)
        asked, self._departing = self._departing, []
        for worker in (worker for worker in self.members() if worker.rank in asked and worker.is_alive):
            if is_stopping or self._cannot_spare():
                self.asks_to_stop = True
            elif self.views.can_lose([worker.rank]):
                self.departed[worker.rank] = now_s
                self._go_on_without(worker, LEAVES)
            else:
                self._departing.append(worker.rank)

    def _tell_lost_before(self, dead: Sequence[WorkerRecord]) -> None:
        """Some have not laid out yet, and may be waiting until the dead have connected."""
        lost = [worker.rank for worker in dead]
        if lost != self._lost_before:
            self._lost_before = lost
            for worker in (worker for worker in self.members() if worker.is_alive):
                self._send(worker.rank, LostBefore(lost))

    def _go_on_without(self, worker: WorkerRecord, cause: str) -> None:
        """`worker` is dead, or leaves: then it is replaced when its process has ended."""
        how = LEFT if worker.is_alive else QUARANTINED if worker.is_quarantined else LOST
        loss = self.losses.add(worker, cause, self._session.so_far_s, how)
        num_left = sum(other.is_alive for other in self.members() if other is not worker)
        self._observer.on_tell(f"{loss}; {num_left} {'goes' if num_left == 1 else 'go'} on")
        self._observer.on_lost(worker.rank)
        if self._checkpoints is not None:
            self._checkpoints.lose()
        if worker.is_alive:
            self._replacement.break_off(CAME_IN_AS_ONE_LEFT)
            self.views.depart(worker.rank, str(loss))
        else:
            if self._on_loss == REPLACE:
                self._replacement.lose(worker.rank)
            self.views.lose(worker.rank, str(loss))
        self._watchdog.lose(worker.rank)
        self._broken_links.lose(worker.rank)
        self.quarantine.forget(worker.rank)
        self._session.lose(worker.rank)  # raises if the replicas that are left differ
        self.let_ended_leave()

    def let_ended_leave(self) -> None:
        """After a loss, scripts may make different numbers of steps, unless replicas are equal: ended ones leave."""
        for rank in self._session.ended if self.losses.all and not self._session.is_alike else ():
            self.views.leave(rank)

    def end_checkpoints(self, *, was_stopped: bool) -> None:
        """When the scripts of all members have ended, a last checkpoint is taken, once."""
        members = self.views.members
        if self._checkpoints is not None and members and set(members) <= self._session.ended.keys():
            steps = {rank: self._session.ended[rank].final.step for rank in members}
            self._checkpoints.end(steps, was_stopped=was_stopped)

    def _replace(self, now_s: float, *, is_stopping: bool) -> None:
        for rank in sorted(self._replacement.coming):
            worker = self._workers()[rank]
            if not worker.is_alive:
                self._replacement.fail(rank, str(describe(worker, ())))
        self._replacement.turn(now_s, is_ending=bool(self._session.ended) or is_stopping)

    def _start_newcomer(self, rank: int) -> None:
        self._session.expect_newcomer(rank)
        self._start(rank)
        self._watchdog.expect(rank)

    def _try_to_start(self, rank: int) -> None:
        """Start a newcomer; if the system has no process for it, the others go on without."""
        try:
            self._start_newcomer(rank)
        except WeftError as error:
            self._replacement.give_up(str(error))

    def _end_newcomer(self, rank: int, cause: str) -> None:
        """Kill a newcomer. If it is a member already, the others have to go on without it."""
        worker = self._workers()[rank]
        if worker.is_alive and rank in self._replacement.joining:
            worker.lost = cause
        self._end(rank)

    def refuse(self, worker: WorkerRecord, error: WeftError) -> WeftError | None:
        """A worker has said what cannot be: the error that ends the run, or None if only this newcomer ends."""
        if worker.rank in self.views.members or worker.rank not in self._replacement.coming:
            return error
        self._observer.on_tell(f"worker {worker.rank} cannot be replaced by what its script does now: {error}")
        self._end(worker.rank)
        return None

    def _end_unreached(self, rank: int, message: Unreached) -> None:
        """A member cannot connect to newcomers: if they live, they must not be members, and are killed."""
        for newcomer in message.newcomers if rank in self.views.members else ():
            if newcomer in self.views.newcomers and self._workers()[newcomer].is_alive:
                self._workers()[newcomer].lost = f"worker {rank} could not connect to it"
                self._observer.on_tell(f"worker {newcomer} is ended: worker {rank} could not connect to it")
                self._end(newcomer)

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
        if worker.rank in self._replacement.joining or self._has_outlived(worker):
            return True
        coming_in = self._replacement.joining
        others = any(other.is_alive for other in self.members() if other is not worker and other.rank not in coming_in)
        may = self._on_loss != STOP and self._session.has_begun and others
        return may and is_silent_death(worker) and self.losses.is_fresh(worker.rank, time.perf_counter())

    def hear(self, worker: WorkerRecord, message: ToSurvival) -> None:
        """Take a worker's message about members that change."""
        rank = worker.rank
        if isinstance(message, CannotSurvive):
            self._cannot = message.why
        elif isinstance(message, LaidOut):
            self.views.lay_out(rank, message.port)
            self._replacement.lay_out(rank)
        elif isinstance(message, Departs):
            self._departing.append(rank)
        elif isinstance(message, Progressed):
            self.views.progress(rank, message.reached)
        elif isinstance(message, Frozen):
            if self.views.hear(rank, message):
                self.losses.told(self._session.so_far_s)
                for newcomer in self.views.newcomers:
                    self._welcome(newcomer)
        elif isinstance(message, ViewTaken):
            self.views.take(rank, message)
        elif isinstance(message, StepCommitted):
            if message.view == self.views.view:
                self.losses.committed(self._session.so_far_s)
        elif isinstance(message, Unreached):
            self._end_unreached(rank, message)
        elif isinstance(message, LinkBroken):
            if rank in self.views.members and message.to in self.views.members:
                self._broken_links.tell(rank, message.to, time.perf_counter())
        elif isinstance(message, HandedOver):
            self._replacement.hand_over(message, time.perf_counter())
        elif isinstance(message, PieceAsked | PieceHanded):
            self._replacement.pass_on(message, time.perf_counter())
        elif isinstance(message, ToRest):
            self._rest.hear(rank, message, time.perf_counter())
        elif self._checkpoints is not None:
            self._checkpoints.hear(rank, message)
