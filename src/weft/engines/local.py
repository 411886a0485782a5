"""Real workers on this machine: starts their processes, brings them together, sees to it that nothing is left."""

import os
import selectors
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from weft.core.errors import NodeLost, TransportError, WeftError
from weft.engines.advice import advise, setting_of
from weft.engines.assignment import assigned
from weft.engines.birth import Nursery, Process
from weft.engines.blame import blame, describe, is_silent_death
from weft.engines.conversation import Conversation
from weft.engines.explanation import Explanation
from weft.engines.kernels import compile_kernels
from weft.engines.launched import Worker
from weft.engines.local_job import LocalJob
from weft.engines.local_outcome import LocalOutcome
from weft.engines.net.namespaces import address
from weft.engines.net.network import SlowNetwork, patience_s
from weft.engines.output import Output
from weft.engines.surroundings import surroundings
from weft.engines.vigil import Vigil, process_state
from weft.observe.status import Status
from weft.observe.stragglers import Blame, Cost, Stragglers
from weft.observe.tracks import Traced, Tracks
from weft.runtime.channel import (
    Concluded,
    Descriptors,
    Ended,
    Failed,
    Halt,
    Halted,
    LeaveAt,
    Message,
    StepAsked,
    StepTold,
)
from weft.transports.bells import NUM_BELLS

HALT_GRACE_S = 1.0
"""How long workers may take to say what they waited for, once a run has failed."""
BLAME_GRACE_S = 0.1
"""How long to look for a cause behind an error that may be another worker's fault."""
CURVE_POINTS_MAX = 4096
"""A long run keeps every other point, again and again."""
MEMORIES = ("arena", "rings", "initial", "once")


Bear = Callable[[int, Sequence[int], Callable[[], None]], list[Process]]
"""How worker processes come into being: how many, with which descriptors, and what to check meanwhile."""


@dataclass
class Watcher:
    """Whoever looks on."""

    on_status: Callable[[Status], None] = lambda status: None
    on_line: Callable[[int, str, bool], None] = lambda rank, text, is_error: None
    on_report: Callable[[int, dict[str, float]], None] = lambda epoch, numbers: None
    on_tell: Callable[[str], None] = lambda text: None
    on_turn: Callable[[], None] = lambda: None
    on_explain: Callable[[Explanation], None] = lambda explanation: None
    on_reported: Callable[[Mapping[str, float | None]], None] = lambda report: None
    """A report as the outcome has it: with its epoch, its time, and how far the replicas were apart."""
    on_blame: Callable[[Blame], None] = lambda blame: None
    """Somebody is slow, as is found just now."""
    on_slow: Callable[[Sequence[Blame]], None] = lambda blames: None
    """Who is slow now, and why."""


def nursery_of(
    job: LocalJob, tell: Callable[[str], None] = lambda text: None, codecs: Sequence[str | None] = ()
) -> Nursery:
    """Where the workers of a job come from; it serves all jobs of the same script and options with these codecs."""
    worker = job.options.worker
    environment = surroundings(os.environ, worker.threads, keeps_memory=worker.keeps_memory)
    compiled = [module for compress in (job.compress, *codecs) for module in compile_kernels(compress, tell)]
    return Nursery(job.script, environment, list(dict.fromkeys(compiled)))


def run_local(job: LocalJob, watcher: Watcher | None = None, bear: Bear | None = None) -> LocalOutcome:
    """Run a script on real workers; raises what went wrong when every process has ended."""
    if bear is None:
        with nursery_of(job) as nursery:
            return run_local(job, watcher, nursery.bear)
    launch = Launch(job, watcher or Watcher(), bear)
    try:
        return launch.run()
    finally:
        launch.close()


class Launch:
    """The processes of one run, from their start to the last one's end."""

    def __init__(self, job: LocalJob, watcher: Watcher, bear: Bear) -> None:
        self._job = job
        self._bear = bear
        self._watcher = watcher
        self._selector = selectors.DefaultSelector()
        self._descriptors: list[int] = []
        self._workers: list[Worker] = []
        self._outputs: list[Output] = []
        self._curve: list[dict[str, float | None]] = []
        self._reports: list[dict[str, float | None]] = []
        self._tracks = Tracks(job.num_workers) if job.traces else None
        self._network: SlowNetwork | None = None
        self._vigil = Vigil(job.num_workers, patience_s(job.network))
        self._stragglers = Stragglers(job.num_workers, self._advise)
        self._num_interrupts = 0
        self._asked_to_leave = False
        self._leave_at: int | None = None
        self._conversation = Conversation(
            job.num_workers,
            job.strategy,
            job.collective,
            job.transport,
            self._send,
            steps_max=job.steps_max,
            global_batch=job.global_batch,
            baseline=job.baseline,
            compress=job.compress,
            bucket_bytes_max=job.options.buckets.bytes_max,
            network=job.network,
            share=job.sharing,
            block_steps=job.options.shares.every,
            on_devices=sorted(job.devices),
            reduce_place=job.options.reduce.place,
        )
        self._conversation.on_explain = watcher.on_explain
        self._conversation.on_report = self._take_report

    def run(self) -> LocalOutcome:
        handlers = {number: signal.signal(number, self._interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            self._start()
            while any(worker.is_alive for worker in self._workers):
                self._turn(0.1)
                guilty = self._guilty()
                if guilty is not None:
                    self._halt()
                    raise describe(guilty, self._workers)
                error = self._vigil.check(time.perf_counter(), self._conversation.ended, self._states())
                if error is not None:
                    self._halt()
                    raise error
                self._answer_interrupts()
            self._drain()
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        return self._outcome()

    def _start(self) -> None:
        job = self._job
        fds = [os.memfd_create(f"weft-{name}") for name in MEMORIES]
        self._descriptors += fds
        bells = range(NUM_BELLS * job.num_workers)
        self._descriptors += [os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK) for _ in bells]
        hosts: list[str] = []
        if job.network is not None:
            self._network = SlowNetwork(job.network, job.num_workers, job.seed)
            self._descriptors += self._network.namespaces
            self._selector.register(self._network.fileno(), selectors.EVENT_READ, self._hear_network)
            hosts = [address(rank) for rank in range(job.num_workers)]
        processes = self._bear(job.num_workers, self._descriptors, self._check_interrupts)
        for rank, process in enumerate(processes):
            self._watch(Worker(rank, process))
        assignment = assigned(job, Descriptors.of(self._descriptors, len(hosts)), hosts)
        for rank, worker in enumerate(self._workers):
            worker.channel.send(assignment(rank))

    def _check_interrupts(self) -> None:
        self._watcher.on_turn()
        if self._num_interrupts:
            raise KeyboardInterrupt

    def _watch(self, worker: Worker) -> None:
        self._workers.append(worker)
        self._selector.register(worker.channel.fileno(), selectors.EVENT_READ, partial(self._hear, worker))
        self._selector.register(worker.process.pidfd, selectors.EVENT_READ, partial(self._bury, worker))
        for descriptor, is_error in ((worker.process.output, False), (worker.process.error, True)):
            output = Output(descriptor, partial(self._show, worker.rank, is_error))
            self._outputs.append(output)
            self._selector.register(descriptor, selectors.EVENT_READ, partial(self._copy, output))

    def _show(self, rank: int, is_error: bool, text: str) -> None:
        self._watcher.on_line(rank, text, is_error)

    def _send(self, rank: int, message: Message) -> None:
        try:
            self._workers[rank].channel.send(message)
        except TransportError:  # it is gone; its end is noticed by its pidfd
            return

    def _turn(self, timeout_s: float) -> None:
        for key, _ in self._selector.select(timeout_s):
            key.data()
        self._watcher.on_turn()

    def _copy(self, output: Output) -> None:
        if not output.read():
            self._selector.unregister(output.fileno())
            output.close()

    def _hear(self, worker: Worker) -> None:
        for message in worker.channel.receive(wait=False):
            if isinstance(message, Status):
                self._take_status(worker, message)
            elif isinstance(message, Traced):
                assert self._tracks is not None
                self._tracks.take(worker.rank, message)
            elif isinstance(message, Failed):
                worker.failed = worker.failed or message
            elif isinstance(message, Halted):
                worker.halted = message
            elif isinstance(message, StepTold):
                worker.step_told = message.step
            else:
                worker.has_finished = isinstance(message, Concluded) or worker.has_finished
                if isinstance(message, Ended):  # a short run tells no other status
                    total = self._conversation.steps_total
                    self._watcher.on_status(msgspec.structs.replace(message.final, steps_total=total))
                    self._judge(message.final)
                try:
                    self._conversation.hear(worker.rank, message)
                except WeftError as error:
                    self._halt()
                    raise error
        if worker.channel.is_closed:
            self._selector.unregister(worker.channel.fileno())
            worker.channel.close()

    def _hear_network(self) -> None:
        assert self._network is not None
        try:
            self._network.hear()
        except NodeLost as error:
            self._selector.unregister(self._network.fileno())
            self._halt()
            raise error
        self._vigil.hear_network(time.perf_counter())

    def _take_status(self, worker: Worker, status: Status) -> None:
        total = self._conversation.steps_total
        worker.status = status = msgspec.structs.replace(status, steps_total=total)
        self._vigil.hear(status, time.perf_counter())
        self._watcher.on_status(status)
        self._judge(status)
        if status.coding is not None and status.coding.num_not_finite and not worker.has_bad_numbers:
            worker.has_bad_numbers = True
            self._watcher.on_tell(
                f"worker {status.rank} has had a gradient that is not finite, by step {status.step}: "
                "its numbers that are not were not sent"
            )
        samples = sum(w.status.samples for w in self._workers if w.status is not None)
        self._curve.append({"wall_s": self._conversation.so_far_s, "samples": samples, "loss": status.loss})
        if len(self._curve) >= CURVE_POINTS_MAX:
            self._curve = self._curve[::2]

    def _advise(self, found: Blame, costs: Mapping[int, Cost]) -> str:
        welcome = self._conversation.welcome
        return "" if welcome is None else advise(found, costs, setting_of(self._job, *welcome))

    def _judge(self, status: Status) -> None:
        for found in self._stragglers.hear(status):
            self._watcher.on_blame(found)
        self._watcher.on_slow(self._stragglers.current())

    def _states(self) -> dict[int, str]:
        """What the system says of each process: 'R', 'S', 'T', ..."""
        return {worker.rank: process_state(worker.pid) for worker in self._workers if worker.is_alive}

    def _take_report(self, epoch: int, numbers: dict[str, float], consensus: float | None) -> None:
        now_s = self._conversation.so_far_s
        self._reports.append({**numbers, "epoch": epoch, "wall_s": now_s, "consensus": consensus})
        self._watcher.on_report(epoch, numbers)
        self._watcher.on_reported(self._reports[-1])

    def _bury(self, worker: Worker) -> None:
        """A process has ended: hear its last words first."""
        if not worker.channel.is_closed:
            self._hear(worker)
        self._selector.unregister(worker.process.pidfd)
        worker.process.wait()
        worker.is_alive = False

    def _guilty(self) -> Worker | None:
        """The worker because of which the run has failed, if it has."""
        if not any(worker.failed or is_silent_death(worker) for worker in self._workers):
            return None
        deadline = time.perf_counter() + BLAME_GRACE_S  # others may have noticed a death before its pidfd was looked at
        while time.perf_counter() < deadline and any(worker.is_alive for worker in self._workers):
            self._turn(0.02)
        return blame(self._workers)

    def _halt(self) -> None:
        """End all processes: those that can are asked what they waited for, the others are killed."""
        for worker in self._workers:
            if worker.is_alive:
                self._send(worker.rank, Halt())
        deadline = time.perf_counter() + HALT_GRACE_S
        while any(worker.is_alive for worker in self._workers) and time.perf_counter() < deadline:
            self._turn(0.02)
        self._kill()
        self._drain()

    def _kill(self) -> None:
        for worker in self._workers:
            if worker.is_alive:
                worker.process.kill()
        while any(worker.is_alive for worker in self._workers):
            self._turn(0.1)

    def _drain(self) -> None:
        """Show what the workers wrote last."""
        deadline = time.perf_counter() + 0.5
        while any(not output.is_closed for output in self._outputs) and time.perf_counter() < deadline:
            self._turn(0.05)

    def _interrupt(self, number: int, frame: Any) -> None:
        self._num_interrupts += 1

    def _answer_interrupts(self) -> None:
        """Once: finish the step and leave in order. Twice, before anything has begun, or under a baseline: now.

        Workers of a baseline wait for each other where they cannot be asked which step they are in.
        """
        if not self._num_interrupts:
            return
        if self._num_interrupts > 1 or not self._conversation.has_begun or self._job.baseline is not None:
            self._kill()
            self._drain()
            self._watcher.on_tell("stopped at once; what was not saved is lost")
            raise KeyboardInterrupt
        if not self._asked_to_leave:
            self._asked_to_leave = True
            self._watcher.on_tell("stopping after this step; once more to stop now")
            for worker in self._workers:
                self._send(worker.rank, StepAsked())
        told = [w.step_told for w in self._workers if w.rank not in self._conversation.ended]
        if told and all(step is not None for step in told) and self._leave_at is None:
            self._leave_at = max(step for step in told if step is not None) + 1
            for worker in self._workers:
                self._send(worker.rank, LeaveAt(self._leave_at))

    def _outcome(self) -> LocalOutcome:
        if self._tracks is not None:
            self._tracks.began_s = self._conversation.began_s
        return LocalOutcome(
            self._conversation.label,
            self._job.transport,
            self._job.seed,
            self._conversation.run_s,
            [ended.final for _, ended in sorted(self._conversation.ended.items())],
            [worker.process.pid for worker in self._workers],
            self._reports,
            self._curve,
            self._conversation.concluded[0].consensus,
            [line for _, c in sorted(self._conversation.concluded.items()) for line in c.replay or ()],
            self._job.baseline is None,
            self._asked_to_leave,
            None if self._network is None else self._network.conclude(),
            sum((Counter(told.ages) for told in self._conversation.concluded.values()), Counter()),
            self._tracks,
            self._stragglers.told,
        )

    def close(self) -> None:
        """Nothing is left: processes, descriptors, memory."""
        self._kill()
        if self._network is not None:
            self._network.close()
        for worker in self._workers:
            if not worker.channel.is_closed:
                worker.channel.close()
        for output in self._outputs:
            if not output.is_closed:
                output.close()
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()
        self._selector.close()
