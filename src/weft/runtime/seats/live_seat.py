"""The seat of a worker that trains with others: calls of its script block until its peer lets the script go on."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from weft.core.events import EpochFinished, GradientReady, PortionAsked, StepFinished
from weft.core.names import NodeId
from weft.core.score import Score
from weft.core.script_state import (
    BACKWARD,
    BEFORE_TRAINING,
    BEGIN,
    HEARD,
    IN_SHARE,
    PREPARING,
    REPORT,
    RESUME,
    SAVE,
    SHARE,
    STEP,
)
from weft.core.seat import Replica, Reported, ScriptArrival, check_closures, check_optimizers, check_tuned
from weft.core.strategy import Strategy
from weft.data.shares import check_sharing
from weft.observe.records.left_out import refuse
from weft.runtime.background import BackgroundDriver
from weft.runtime.building import build
from weft.runtime.channel import Channel
from weft.runtime.connections import Connections
from weft.runtime.driver import Wanted
from weft.runtime.initial_values import FirstValues
from weft.runtime.messages import Concluded, Message, Order, ScriptJoined, SpoilGradients, Welcome, WorkerJob
from weft.runtime.reduce.between_hosts import Planner
from weft.runtime.seats.once import Sharing
from weft.runtime.seats.part_writing import PartWriting
from weft.runtime.seats.result_seat import ResultSeat
from weft.runtime.seats.survivor import Survivor, ToSurvivor
from weft.runtime.view_messages import HandedOver, PieceAsked, ViewTold
from weft.runtime.waiting import Waiting
from weft.runtime.worker_runtime import WorkerRuntime
from weft.store.gate import Gate

Resolve = Callable[[Welcome | None, Strategy | str | None], tuple[Strategy, str]]
"""Takes `Welcome` and the strategy that the script asked for; returns the strategy to use and its name."""


class LiveSeat(ResultSeat):
    """The seat of one of several workers."""

    is_plain = False

    def __init__(self, job: WorkerJob, channel: Channel, resolve: Resolve, sharing: Sharing, planner: Planner) -> None:
        super().__init__(job, channel, sharing)
        self._resolve, self._planner = resolve, planner
        self._connections = Connections(job)
        self._asked: Strategy | str | None = None
        self._first_values = FirstValues(job.descriptors.initial, is_first=job.rank == 0 and not job.first_view)
        self._welcome: Welcome
        self._gate: Gate
        self._given: set[int] = set()
        """Buckets of the current backward for which the peer has been told GradientReady."""
        self._epoch, self._is_spoilt = 0, False
        self._arrival: ScriptArrival | None = None
        """Where a newcomer's script begins."""
        self.has_resumed = False
        """The script has gone on from a checkpoint."""
        self.kept_by: Callable[[NodeId, Sequence[int]], Mapping[str, Mapping[int, Any]]] | None = None
        """What a node of the checkpoint has to keep besides its parameters, in buckets of these sizes."""
        self.checkpoints = None if job.checkpoint is None else PartWriting(job.checkpoint, channel.send, self.tell)
        if job.survives:
            self.survivor = Survivor(self, channel.send, self._lock)
            self._connections.lost = self._lost_before
            self._connections.on_broken = self.survivor.link_broke

    def join(self, replica: Replica, strategy: Strategy | str | None, compress: str | None = None) -> None:
        self._check_first_join()
        self._replica, self._asked = replica, strategy
        text = strategy if isinstance(strategy, str | None) else self._resolve(None, strategy)[1]
        self._begin_alike(text, compress)
        built, name = self._strategy()
        check_sharing(built, name or type(built).__name__, self.job.share)
        self._score = Score(built.score)
        if self.survivor is not None:
            self.survivor.deals_rounds = not built.deals_portions
            self.survivor.shares.keeps_step = built.keeps_step
        self._begin()

    def join_more(self) -> None:
        self._begin_alike(None, None)

    def _begin_alike(self, strategy: str | None, compress: str | None) -> None:
        """Join with the models that are new, and give them worker 0's initial values when all workers have joined."""
        values, layout = self._replica.values(), list(self._replica.layout())
        self._first_values.offer(values)
        size = sum(value.nbytes for value in values)
        self._channel.send(ScriptJoined(layout, size, strategy, self._connections.port, compress))
        self._welcome = self._expect_welcome()
        self._first_values.take(self._replica)

    def _strategy(self) -> tuple[Strategy, str]:
        return self._resolve(self._welcome, self._asked)

    @property
    def _keeps_step(self) -> bool:
        """Whether all workers end after the same step; not if portions are dealt out, and fast ones make more steps."""
        return not self._num_shares and self._awaited.keeps_step

    @property
    def _last_step(self) -> int:
        waits_for_portion = self.script.at is IN_SHARE and self._runtime.worker.wanted is not None
        return self._step if waits_for_portion else super()._last_step

    def check_closures(self) -> None:
        check_closures(*self._strategy())

    def portions(self, num_portions: int, num_samples: int) -> Iterator[int] | None:
        if self.steals:
            return self._portions(num_portions, lambda *share: self.shares.portion(num_samples, *share))
        return self._portions(num_portions, self._next_portion) if self._strategy()[0].deals_portions else None

    def _portions(self, num_portions: int, draw: Callable[[int, int], int | None]) -> Iterator[int]:
        share, self._num_shares = self._num_shares, self._num_shares + 1
        self.settle()  # a worker that gets no portion must take part in the strategy, too
        while not self._is_over:
            portion = draw(share, num_portions)
            if portion is None:
                return
            yield portion

    def _next_portion(self, share: int, num_portions: int) -> int | None:
        self.script.check(SHARE)
        with self._driving() as runtime, runtime.driver.script_waits(SHARE) as node:
            wanted = node.wanted = Wanted()
            runtime.driver.deliver(node, PortionAsked(share, num_portions))
            self._wait(lambda: node.wanted is None or self._is_over)
            return None if self._is_over else wanted.portion

    def settle(self) -> None:
        if self.script.at not in BEFORE_TRAINING:
            return
        self.script.call(BEGIN)
        try:
            runtime = self._begin_training()
        except BaseException:
            self.script.at = PREPARING
            raise
        self.script.call(RESUME)
        if runtime.needs_background:  # its thread drives at once, so the script's state must be set before
            descriptors, may_rest = [self._channel.fileno(), *runtime.descriptors], runtime.background_may_rest
            drive, fail = self._drive_for_script, self._fail_and_end
            self._background = BackgroundDriver(
                runtime.bells, descriptors, self._lock, drive, fail, may_rest, runtime.doors
            )

    def _begin_training(self) -> WorkerRuntime:
        """Lay the replica out in worker 0's order; blocks until the strategy lets the script make its first step."""
        if not self.job.first_view:
            self._channel.send(Order(list(self._replica.order()), list(self._replica.tuned())))
        told = self._expect(Order)
        check_tuned(self.rank, told.tuned, self._replica.tuned())
        strategy, name = self._strategy()
        check_optimizers(strategy, name, self._replica)
        runtime = self._runtime = self._awaited = build(
            self.job,
            strategy,
            self._replica,
            told.order,
            self._connections,
            self._welcome.ports,
            self._wait_words,
            self._planner,
            self.tracer,
            name,
            self.script,
        )
        descriptors, job = [self._channel.fileno(), *runtime.descriptors], self.job
        self._waiting = Waiting(
            descriptors, self.activity_clock, runtime.bells, owns_core=job.owns_core, spin_s=job.spin_s
        )
        if self.kept_by is not None:
            sizes = [bucket.num_elements for bucket in runtime.world.buckets]
            for node in runtime.driver.nodes.values():
                node.store.take_kept(self.kept_by(node.id, sizes))
            self.kept_by = None
        self._gate = runtime.worker.store.guard(self.rank, self.num_workers, strategy, self._leave_out)
        if self.survivor is not None:
            self.survivor.begin(runtime, self._connections.port)
            if job.departs:
                self.survivor.departure.watch()
        runtime.driver.start()
        if self.survivor is not None and job.first_view:
            self._begin_where_run_is(runtime, self.survivor)
        else:
            self._wait(lambda: runtime.worker.computes == 0)
        runtime.worker.store.let_user_run()
        return runtime

    def _lost_before(self) -> list[int]:
        """The workers that the engine says are lost, while this one connects to the others."""
        assert self.survivor is not None
        self._listen()
        return self.survivor.lost_before

    def _begin_where_run_is(self, runtime: WorkerRuntime, survivor: Survivor) -> None:
        """A newcomer comes in; blocks until all others are ready to go on with it."""
        self._wait(lambda: survivor.has_come_in)
        handed, step = survivor.handed, runtime.worker.computes
        assert handed is not None
        assert step is not None
        self._num_reports, self._num_saves, self._epoch = handed.num_reports, handed.num_saves, handed.reported_epochs
        self._step = step
        self.metrics.begin_at(step)
        is_here = handed.sponsor in self.job.on_host
        # its memory is freed when the rest is over
        state = self._once.take_over(handed.state) if is_here else self._once.bring(handed, self.rank)
        self._arrival = ScriptArrival(handed.shares.loop, handed.shares.epoch)
        survivor.script_place.take_over(step, state)
        self._gate.keep()
        survivor.rest.come_in(step, self._wait)

    @property
    def _is_still_to_come(self) -> bool:
        """The script is before its loop, in a run that has begun already: what it reports and saves there was reported
        and saved by others, or before the checkpoint from which it goes on."""
        resumes = self.job.checkpoint is not None and self.job.checkpoint.resume is not None
        has_begun = bool(self.job.first_view) or (resumes and not self.has_resumed)
        return has_begun and self.script.at in BEFORE_TRAINING

    def come_in(self) -> ScriptArrival | None:
        if not self.job.first_view or self.script.at not in BEFORE_TRAINING:
            return None
        self.settle()
        return self._arrival

    @property
    def hands_state(self) -> bool:
        """The optimizer's state is handed over: a newcomer takes over this replica, and they do not share one state."""
        return self._runtime.worker.peer.gives_replica and self._runtime.driver.shared_params is None

    def hand_over(self, told: ViewTold) -> HandedOver:
        survivor = self.survivor
        assert survivor is not None
        state = survivor.script_place.hand_over(with_state=self.hands_state)
        form, start, stop = self._once.hand_over(state)
        survivor.rest.afterwards = partial(self._once.free, start, stop)
        shares = survivor.shares.hand_over()
        counts = self._num_reports, self._num_saves, self._epoch
        return HandedOver(told.view, shares, *counts, form, self.rank, start, stop)

    @property
    def step(self) -> int:
        return self._step

    @property
    def num_given(self) -> int:
        return len(self._given)

    def gradient_filled(self, bucket: int, samples: float) -> None:
        if self._stretching.is_on:  # a slower machine would not have filled the bucket yet
            return
        with self._lock:
            self._give(bucket, samples)
            self._runtime.driver.progress()
            if self._background is not None:
                self._background.look_after()

    def _hear(self, message: Message) -> None:
        if isinstance(message, ToSurvivor):
            assert self.survivor is not None
            self.survivor.hear(message)
        elif isinstance(message, SpoilGradients):
            self._is_spoilt = True
        elif isinstance(message, PieceAsked):
            self._channel.send(self._once.piece(message))
        else:
            super()._hear(message)

    def rest_in_share(self) -> None:
        assert self.survivor is not None
        with self._driving() as runtime, runtime.driver.script_waits(SHARE):
            self.survivor.rest.stop(self._step, self._wait)

    def wait_in_share(self, done: Callable[[], bool]) -> None:
        with self._driving() as runtime, runtime.driver.script_waits(SHARE):
            self._wait(done)

    def _give(self, bucket: int, samples: float) -> None:
        if not self._given:
            self._gate.begin(is_spoilt=self._is_spoilt)
        self._given.add(bucket)
        weight = self._gate.weigh(self._step, bucket, samples)
        self._runtime.driver.deliver(self._runtime.worker, GradientReady(self._step, bucket, weight))

    def backward_finished(self, samples: float) -> None:
        self.script.check(BACKWARD)
        self._check_over()
        self._stretching.stretch()
        with self._driving() as runtime:
            self.script.call(BACKWARD)
            try:
                self._share_gradient(runtime, samples)
            finally:
                self.script.call(RESUME)

    def _share_gradient(self, runtime: WorkerRuntime, samples: float) -> None:
        for bucket in runtime.world.trainable:
            if bucket not in self._given:
                self._give(bucket, samples)
        self._given.clear()
        peer, are_alike = runtime.worker.peer, runtime.strategy.keeps_replicas_equal
        self._wait(lambda: not peer.holds_user)
        if are_alike:  # buffers or a loss may have been reduced, too
            runtime.worker.store.settle_shadows()
        self._gate.reduced()
        if self.survivor is not None and are_alike:
            self.survivor.shares.commit()

    def step_finished(self, samples: float, loss: float | None, *, is_repeat: bool = False) -> None:
        self.script.check(STEP)
        num_new = 0.0 if is_repeat else samples
        self.shares.step(num_new)
        with self._driving() as runtime:
            step, self._step = self._step, self._step + 1
            with runtime.driver.script_waits(STEP) as node:
                counted, told_loss = self._gate.finish(step, samples, loss)
                if self.job.stops_on_nan:
                    refuse(self.metrics.left_out, self.rank, step, loss)
                loss = told_loss
                runtime.driver.deliver(node, StepFinished(step, counted, loss))
                self._wait(lambda: node.computes == step + 1 and not runtime.is_choked())
                self._gate.end()
                if self.survivor is not None:
                    self.survivor.shares.commit()
                self._count_step(num_new, loss)
                self._tell()
                if runtime.driver.stopped_because is not None:
                    self.steps_max = self._step
                if self._pauses_at_step:
                    self._wait(lambda: not self._pauses_at_step)
                if self.survivor is not None:
                    self.survivor.step_is_made(self._step, self._wait)

    def report(self, epoch: int, numbers: Reported) -> None:
        if self._is_still_to_come:
            return
        self.script.check(REPORT)
        self.settle()
        scored = self._runtime.strategy.scored
        with self._evaluating():
            own = {n: float(v() if callable(v) else v) for n, v in numbers.items() if scored or not callable(v)}
        self._score.report(own)
        with self._driving() as runtime, runtime.driver.script_waits(REPORT, HEARD, refuses_writes=False) as node:
            if epoch >= self._epoch:
                self._epoch = epoch + 1
                runtime.driver.deliver(node, EpochFinished(epoch, own))
                self._wait(lambda: not node.peer.holds_user)
        try:
            self._report(epoch, own, numbers)
        finally:
            self.script.call(RESUME)

    def save(self, path: str, model: str, *, of: int | None = None, allow_nan: bool = False) -> None:
        if self._is_still_to_come:
            return
        self.script.check(SAVE)
        self.settle()
        with self.script.during(SAVE):
            self._runtime.worker.store.refuse_writes()
            super().save(path, model, of=of, allow_nan=allow_nan)

    def _say_ended(self) -> None:
        with self._lock:
            self._runtime.driver.end_script()
            self._runtime.say_ended()

    def end(self) -> None:
        if self.has_resumed and not self._step:  # the run has trained, though not in this process
            self.settle()
            self._num_shares += 1
        super().end()

    def _conclude(self, *, is_first: bool) -> Concluded:
        survivor, num_unused = self.survivor, 0
        if survivor is not None:
            self._wait(lambda: not survivor.is_dealing)
            num_unused = survivor.shares.num_unused
            if self.checkpoints is not None:
                self._wait(lambda: survivor.rest.order is not None)
                survivor.rest.take_part()
                self.checkpoints.finish()
        return self._runtime.conclude(self._wait, self._distance, num_unused, with_consensus=is_first)

    def _say_goodbye(self) -> None:
        self._lock.acquire()  # never released: the background driver must not use closed connections
        self._runtime.close()
