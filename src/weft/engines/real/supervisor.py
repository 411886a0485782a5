"""Supervises a run of real workers, on one host or several: hears them, finds failures, and ends a run that has failed.

One thread and one selector. Signal handlers only count (`_num_interrupts`); the loop acts on the count.
"""

import selectors
import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from weft.core.errors import Deadlock, WeftError
from weft.engines.advice import advise, setting_of
from weft.engines.netem.network import patience_s
from weft.engines.real import timeouts
from weft.engines.real.failure import also, blame, describe, is_silent_death, name
from weft.engines.real.job import RealJob
from weft.engines.real.observer import Observer
from weft.engines.real.orderly_stop import OrderlyStop
from weft.engines.real.outcome import RealOutcome
from weft.engines.real.reduce_choice import ReductionChoice
from weft.engines.real.returned_files import ReturnedFiles
from weft.engines.real.session import RunSession
from weft.engines.real.stalls import Delays
from weft.engines.real.survival import Survival, ToSurvival
from weft.engines.real.watchdog import Watchdog
from weft.engines.real.worker_record import WorkerRecord
from weft.observe.records.left_out import Lines
from weft.observe.records.progress import steps_of_each
from weft.observe.records.run_history import RunHistory
from weft.observe.records.same_samples import SameSamples
from weft.observe.records.same_stream import SameStream
from weft.observe.records.status import StackTold, Status
from weft.observe.records.stragglers import Blame, Cost, Stragglers
from weft.observe.records.tracks import Traced, Tracks
from weft.runtime.messages import Concluded, Failed, Halt, Halted, Message, ScriptCompleted, ScriptJoined, StepTold
from weft.runtime.seats.returned_files import FilePiece, PieceTaken, Unsaved


class Supervisor:
    """One run, from the start of its workers to the end of the last one. Subclasses say how workers are reached."""

    def __init__(self, job: RealJob, observer: Observer) -> None:
        self._job = job
        self._observer = observer
        self._selector = selectors.DefaultSelector()
        self._workers: Sequence[WorkerRecord] = ()
        self._history = RunHistory()
        self._tracks = Tracks(job.num_workers) if job.traces else None
        self._watchdog = Watchdog(
            job.num_workers,
            patience_s(job.network),
            lambda rank: name(self._workers[rank]),
            lambda rank: self._workers[rank].moment,
        )
        self._delays = Delays()
        self._stragglers = Stragglers(job.num_workers, self._advise)
        self._left_out = Lines(observer.on_tell)
        self._same_samples, self._same_stream = SameSamples(job.num_workers), SameStream()
        self._not_saved: list[str] = []
        self._returned_files = ReturnedFiles(job.brings_back_to)
        self._error: WeftError | None = None
        """Why the run cannot go on, if that is known already."""
        self._num_interrupts, self._stop = 0, OrderlyStop(self._send)
        self._session = RunSession(
            job.num_workers,
            job.strategy,
            _reductions(job),
            self._send,
            steps_max=job.steps_max,
            global_batch=job.global_batch,
            baseline=job.baseline,
            compress=job.compress,
            share=job.sharing,
            block_steps=job.options.shares.every,
        )
        self._session.on_explain, self._session.on_tell = observer.on_explain, observer.on_tell
        self._session.on_report = self._take_report
        self._survival = Survival(
            job.on_loss,
            lambda: self._workers,
            self._session,
            self._watchdog,
            observer,
            send=self._send,
            end=self._end_one,
            start=self._start_newcomer,
            states=self._states,
            checkpoints=job.checkpoint if job.num_workers > 1 else None,
            workers_min=job.workers_min,
        )

        if job.num_hosts > 1:
            self._survival.views.expect_progress()

    def run(self) -> RealOutcome:
        handlers = {number: signal.signal(number, self._interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            self._start()
            is_behind = False
            while self._anybody_lives():
                began_s = time.perf_counter()
                self._turn(0.1)
                # if a slow disk has held this up, what workers have said meanwhile is heard before they are judged
                is_behind = not is_behind and time.perf_counter() - began_s > timeouts.OWN_STALL_S
                if not is_behind:
                    self._check()
                self._answer_interrupts()
            self._drain()
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        return self._outcome()

    def _check(self) -> None:
        """End the run and raise the reason if it cannot go on; tell the observer which workers keep others waiting."""
        self._check_lost(now_s := time.perf_counter())
        late = self._late()
        guilty = None if self._error is not None else self._guilty()
        if guilty is not None:
            self._halt()
            failure = also(describe(guilty, self._workers), late)
            failure.before_join = not guilty.has_joined
            raise failure
        error = self._error or self._watchdog.check(now_s, self._session.ended, self._states())
        if isinstance(error, Deadlock) and self._survival.end_outlived():
            error = None
        if error is not None:
            self._halt()
            raise also(error, late)
        for text in self._delays.check(now_s, self._survival.members(), has_begun=self._session.has_begun):
            self._observer.on_tell(text)

    def _check_lost(self, now_s: float) -> None:
        if self._error is None:
            try:
                self._survival.check(now_s, is_stopping=self._stop.has_begun)
                self._survival.end_checkpoints(
                    was_stopped=self._stop.has_begun
                )  # it may be the last to train that is lost
            except WeftError as error:
                self._error = error
        if self._survival.asks_to_stop and not self._num_interrupts:
            self._num_interrupts = 1  # as if this process had been sent the signal

    def _late(self) -> list[str]:
        """Lines about workers that keep others waiting, for a message that ends the run."""
        return self._delays.lines(time.perf_counter(), self._survival.members())

    def _start(self) -> None:
        """Start all workers, or wait for them, and send each its WorkerJob."""
        raise NotImplementedError

    def _send(self, rank: int, message: Message) -> None:
        """Send `message` to worker `rank`; does nothing if the worker is gone."""
        raise NotImplementedError

    def _states(self) -> Mapping[int, str]:
        """The states of living workers in /proc/PID/stat, by rank: 'R', 'S', 'T', ..."""
        raise NotImplementedError

    def _end_one(self, rank: int) -> None:
        """Kill worker `rank`."""
        raise NotImplementedError

    def _start_newcomer(self, rank: int) -> None:
        """Start a process that takes the place of worker `rank`, whose process is dead."""
        raise NotImplementedError

    def _end_all(self) -> None:
        """Kill every worker that lives."""
        raise NotImplementedError

    def _drain(self) -> None:
        """Show what is left in the workers' output pipes."""
        raise NotImplementedError

    def _anybody_lives(self) -> bool:
        return any(worker.is_alive for worker in self._workers)

    def _turn(self, timeout_s: float) -> None:
        for key, _ in self._selector.select(timeout_s):
            key.data()
        self._observer.on_turn()

    def _check_interrupts(self) -> None:
        """Raise KeyboardInterrupt if a signal came; for loops that wait before the run has begun."""
        self._observer.on_turn()
        if self._num_interrupts:
            raise KeyboardInterrupt

    def _take(self, worker: WorkerRecord, message: Message) -> None:
        """Take a message that a worker sent."""
        if isinstance(message, Status):
            self._take_status(worker, message)
        elif isinstance(message, Traced):
            assert self._tracks is not None
            self._tracks.take(worker.rank, message)
        elif isinstance(message, Failed):
            worker.failed = worker.failed or message
        elif isinstance(message, Halted):
            worker.halted = message
        elif isinstance(message, StackTold):
            self._delays.hear(worker.rank, message, time.perf_counter())
        elif isinstance(message, StepTold):
            worker.step_told = message.step
        elif isinstance(message, ToSurvival):
            self._survival.hear(worker, message)
        elif isinstance(message, FilePiece):
            self._take_piece(worker, message)
        elif isinstance(message, Unsaved):
            self._session.saves.unsaved.add(message.number)
            self._take_loss(f"worker {worker.rank} on host {worker.host}: {message.text}")
        else:
            worker.has_joined = isinstance(message, ScriptJoined) or worker.has_joined
            worker.has_ended = isinstance(message, ScriptCompleted) or worker.has_ended
            worker.has_finished = isinstance(message, Concluded) or worker.has_finished
            if isinstance(message, ScriptCompleted):  # a short run tells no other status
                self._observer.on_status(msgspec.structs.replace(message.final, steps_total=self._steps_total()))
                self._judge(message.final)
                self._left_out.take(worker.rank, message.final.left_out)
                self._show_notices(worker, message.final)
            if self._error is None:
                try:
                    self._session.hear(worker.rank, message)
                    self._survival.let_ended_leave()
                    self._survival.end_checkpoints(was_stopped=self._stop.has_begun)
                except WeftError as error:  # raised by `_check`: ending workers here would re-enter the selector's loop
                    self._error = self._survival.refuse(worker, error)

    def _take_piece(self, worker: WorkerRecord, piece: FilePiece) -> None:
        """Write a piece of a file that a worker on another machine saved; answer whether the rest is wanted."""
        objection = self._returned_files.take(worker.rank, piece)
        if objection is not None:
            self._take_loss(f"'{piece.path}' stays with worker {worker.rank} on host {worker.host}: {objection}")
        elif piece.is_last:
            self._observer.on_tell(f"'{piece.path}' has come from worker {worker.rank} on host {worker.host}")
        self._send(worker.rank, PieceTaken(objection is None))

    def _take_loss(self, text: str) -> None:
        """Tell the user that a model was not saved as the script asked: at once, and again when the run is over."""
        self._not_saved.append(text)
        self._observer.on_tell(text)

    def _take_status(self, worker: WorkerRecord, status: Status) -> None:
        worker.status = status
        if worker.rank in self._survival.departed:
            return
        worker.status = status = msgspec.structs.replace(status, steps_total=self._steps_total())
        self._watchdog.hear(status, time.perf_counter())
        self._survival.quarantine.hear(status)
        self._observer.on_status(status)
        self._judge(status)
        self._left_out.take(status.rank, status.left_out)
        self._show_notices(worker, status)
        samples = sum(w.status.samples for w in self._workers if w.status is not None)
        self._history.add_status(status, samples, self._session.so_far_s)

    def _steps_total(self) -> int | None:
        """How many steps each worker will make, by the plan of worker 0's script and what all have done so far. After
        a loss that is not known: fewer workers make more steps, and newcomers have not done all of theirs."""
        if self._survival.losses.all:
            return self._job.steps_max
        told = [worker.status for worker in self._survival.members() if worker.status is not None]
        session, num_members = self._session, len(self._survival.views.members)
        return steps_of_each(session.steps_total, session.samples_planned, told, num_members)

    def _show_notices(self, worker: WorkerRecord, status: Status) -> None:
        for text in status.notices[worker.num_notices :]:
            self._observer.on_tell(text)
        worker.num_notices = max(worker.num_notices, len(status.notices))
        same = self._same_samples.hear(status.rank, status.first_gradient)
        if same is not None:
            self._observer.on_tell(same)
        try:
            self._same_stream.hear(status.rank, status.first_item)
        except WeftError as error:
            self._error = self._error or error

    def _advise(self, found: Blame, costs: Mapping[int, Cost]) -> str:
        welcome = self._session.welcome
        return "" if welcome is None else advise(found, costs, setting_of(self._job, *welcome))

    def _judge(self, status: Status) -> None:
        for found in self._stragglers.hear(status):
            self._observer.on_blame(found)
        self._observer.on_slow(self._stragglers.current())

    def _take_report(self, epoch: int, numbers: dict[str, float], consensus: float | None) -> None:
        self._history.add_report(epoch, numbers, consensus, self._session.so_far_s)
        self._observer.on_report(epoch, numbers)
        self._observer.on_reported(self._history.reports[-1])

    def _guilty(self) -> WorkerRecord | None:
        """The worker that made the run fail; None if it has not failed."""
        members = [worker for worker in self._survival.members() if not self._survival.others_may_go_on(worker)]
        if not any(worker.failed or is_silent_death(worker) for worker in members):
            return None
        deadline = time.perf_counter() + timeouts.CAUSE_S  # a worker's error may come before the news that another died
        while time.perf_counter() < deadline and self._anybody_lives():
            self._turn(0.02)
        return blame(self._survival.members())

    def _halt(self) -> None:
        """End all workers: ask each what it waits for (`Halt`), then kill those still alive after `timeouts.HALT_S`."""
        for worker in self._workers:
            if worker.is_alive:
                self._send(worker.rank, Halt())
        deadline = time.perf_counter() + timeouts.HALT_S
        while self._anybody_lives() and time.perf_counter() < deadline:
            self._turn(0.02)
        self._kill()
        self._drain()

    def _kill(self) -> None:
        self._end_all()
        while self._anybody_lives():
            self._turn(0.1)

    def _interrupt(self, number: int, frame: Any) -> None:
        self._num_interrupts += 1

    def _answer_interrupts(self) -> None:
        """First signal: all finish their step and leave in order. Second signal: stop at once.

        The first signal stops at once, too, before the run has begun, and under a baseline: its workers wait for each
        other inside torch.distributed, where they cannot answer in which step they are.
        """
        if not self._num_interrupts:
            return
        if self._num_interrupts > 1 or not self._session.has_begun or self._job.baseline is not None:
            late = self._late()
            self._kill()
            self._drain()
            self._observer.on_tell("\n".join(["stopped at once; what was not saved is lost", *late]))
            raise KeyboardInterrupt
        if not self._stop.has_begun:
            self._observer.on_tell("\n".join(["stopping after this step; once more to stop now", *self._late()]))
            self._stop.begin(self._survival.members())
        self._stop.go_on(self._survival.members(), self._session.ended)

    def _network_figures(self) -> dict[str, Any] | None:
        """What the emulated network (`--net`) of this run carried; None without one."""
        return None

    def _outcome(self) -> RealOutcome:
        if self._tracks is not None:
            self._tracks.began_s = self._session.began_s
            self._tracks.incidents = [one for loss in self._survival.losses.all for one in loss.incidents()]
        return RealOutcome(
            strategy=self._session.label,
            transport=self._job.transport,
            seed=self._job.seed,
            wall_s=self._session.run_s,
            workers=[ended.final for _, ended in sorted(self._session.ended.items())],
            pids=[self._workers[rank].pid for rank in sorted(self._session.ended)],
            losses=self._survival.losses.all,
            lost=self._survival.losses.statuses,
            num_unused=max(told.num_unused for told in self._session.concluded.values()),
            reports=self._history.reports,
            curve=self._history.curve,
            consensus=self._session.consensus,
            replay=[line for _, c in sorted(self._session.concluded.items()) for line in c.replay or ()],
            is_measured=self._job.baseline is None,
            was_stopped=self._stop.has_begun,
            network=self._network_figures(),
            ages=sum((Counter(told.ages) for told in self._session.concluded.values()), Counter()),
            tracks=self._tracks,
            blamed=self._stragglers.lasting(),
            hosts=self._job.hosts,
            saved=self._session.saves.saved,
            not_saved=self._not_saved,
        )

    def close(self) -> None:
        """Close the selector, and drop files that have not arrived completely."""
        self._returned_files.close()
        self._selector.close()


def _reductions(job: RealJob) -> ReductionChoice:
    """What this run's reductions are chosen by."""
    return ReductionChoice(
        hosts=list(job.hosts) or [0] * job.num_workers,
        transport=job.transport,
        collective=job.collective,
        network=job.network,
        bucket_bytes_max=job.options.buckets.bytes_max,
        on_devices=sorted(job.devices),
        reduce_place=job.options.reduce.place,
        trusts_network=job.options.network.trusted,
        survives=job.survives,
    )
