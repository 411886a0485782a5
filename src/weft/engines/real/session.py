"""The run session: what the engine answers its workers when they join, load once, report, save, share data and end."""

import time
from collections.abc import Callable, Collection, Sequence

from weft.config.compression import check_pair, said, with_codec
from weft.config.compression import codec as codec_of
from weft.config.devices import check_on_devices
from weft.config.registry import strategy as strategy_of
from weft.core.consensus import END, Consensus, Look
from weft.core.score import WORST, best
from weft.data.proportional import EVERY, Done
from weft.data.shares import STATIC, Shares, check_sharing, with_share
from weft.engines.explanation import Explanation
from weft.engines.real.barriers import Barrier, arrived, left_to, welcome
from weft.engines.real.late_joins import LateJoins
from weft.engines.real.layout_check import check_layouts
from weft.engines.real.memory_check import Room, check_all_fit
from weft.engines.real.once_loads import Loadings
from weft.engines.real.reduce_choice import ReductionChoice
from weft.engines.real.run_saves import RunSaves
from weft.engines.real.seat_factory import OWN
from weft.engines.real.short_runs import ShortRun, steps_planned
from weft.runtime.connections import TCP
from weft.runtime.messages import (
    Conclude,
    Concluded,
    Decided,
    Evaluated,
    FractionsAsked,
    FractionsTold,
    Message,
    OnceAsked,
    OnceLoaded,
    Order,
    Planned,
    PortionRequested,
    PortionTold,
    ReplicaTold,
    Reported,
    Saves,
    ScriptCompleted,
    ScriptJoined,
    ThroughputMeasured,
    Welcome,
)

DEFAULT_STRATEGY = "allreduce"
COPIES = 5
"""Copies of the model in each worker's memory: parameters, gradients, reduced gradients, two of optimizer state."""

Send = Callable[[int, Message], None]


class RunSession:
    """The protocol between workers and engine, without its transport: `hear` takes messages, `send` answers them."""

    _short_run: ShortRun | None = None
    """Warns of runs that are too short; None for a strategy that only the script knows."""
    samples_planned: int | None = None
    """Samples of all workers over all epochs; None if the script has not said it, or `steps_max` ends the run."""
    rooms: Sequence[Room] = ()
    """The available memory of each host, in the order of host numbers; empty: all workers are on this host."""
    welcome: tuple[Welcome, int] | None = None
    """The `Welcome` that all workers got when all had joined, and the bytes of their model."""
    began_s = _over = 0.0
    """When all had joined, and when all scripts had ended, by `time.perf_counter`."""

    def __init__(
        self,
        num_workers: int,
        strategy: str | None,
        reductions: ReductionChoice,
        send: Send,
        *,
        compress: str | None = None,
        steps_max: int | None = None,
        global_batch: int | None = None,
        baseline: str | None = None,
        share: str = STATIC,
        block_steps: int = EVERY,
    ) -> None:
        self.num_workers, self._hosts = num_workers, reductions.hosts
        self._members = set(range(num_workers))
        """The workers that take part: all that have not been lost."""
        self._strategy, self._reductions, self._send, self._compress = strategy, reductions, send, compress
        self._shares = Shares(num_workers, share, block_steps)
        self._steps_max, self._global_batch, self._baseline, self._share = steps_max, global_batch, baseline, share
        self.late_joins, self._joined = LateJoins(send), dict[int, ScriptJoined]()
        self._more = dict[int, ScriptJoined]()  # those that have joined with a further model, until all have
        self._reports, self.saves = dict[int, Barrier](), RunSaves(lambda text: self.on_tell(text))
        self._badness = dict.fromkeys(range(num_workers), WORST)
        """Each worker's last score, negated where higher is better, so that smaller is better."""
        self.is_alike = num_workers == 1 or baseline is not None
        """All replicas are equal at all times, so that any worker may evaluate or save."""
        self._deals_portions = self._shares.steals
        self._loadings, self._consensus = Loadings(self._hosts, send), Consensus(num_workers)
        self.ended, self.concluded = dict[int, ScriptCompleted](), dict[int, Concluded]()
        self.steps_total, self.label = steps_max, strategy or ""
        self.on_joined: Callable[[], None] = lambda: None
        """Called when all workers have joined with equal layouts, before they are sent `Welcome`."""
        self.on_explain: Callable[[Explanation], None] = lambda explanation: None
        self.on_tell: Callable[[str], None] = lambda text: None
        self.on_report: Callable[[int, dict[str, float], float | None], None] = lambda epoch, numbers, consensus: None
        """Called with the epoch, its numbers, and the consensus distance if it was measured."""

    @property
    def has_begun(self) -> bool:
        """All workers have joined."""
        return len(self._joined) == self.num_workers

    @property
    def run_s(self) -> float:
        """Seconds from when all workers had joined until all scripts had ended."""
        return self._over - self.began_s

    @property
    def so_far_s(self) -> float:
        """Seconds since all workers had joined; 0 before."""
        return time.perf_counter() - self.began_s if self.has_begun else 0.0

    @property
    def consensus(self) -> float | None:
        """The consensus distance of the replicas at the end; None if it is not known."""
        told = self.concluded[min(self._members)].consensus
        return self._consensus.distance(END) if told is None else told

    @property
    def is_over(self) -> bool:
        """All workers have sent `Concluded`."""
        return self._members <= self.concluded.keys()

    def hear(self, rank: int, message: Message) -> None:
        """Take a message from worker `rank`, and answer it by `send`."""
        if not self._over or isinstance(message, Concluded):
            self.saves.has_written(rank)
        if isinstance(message, ScriptJoined):
            self._join(rank, message)
        elif isinstance(message, Order):
            self.late_joins.orders[rank] = message
            self.tell_order(())
        elif isinstance(message, Planned):
            self._plan(message)
        elif isinstance(message, Reported):
            self._report(rank, message)
        elif isinstance(message, ReplicaTold):
            self._compare(rank, message)
        elif isinstance(message, Evaluated):
            self._evaluate(message)
        elif isinstance(message, Saves):
            self._save(rank, message)
        elif isinstance(message, OnceAsked):
            self._loadings.ask(rank, message)
        elif isinstance(message, OnceLoaded):
            self._loadings.take(rank, message)
        elif isinstance(message, ThroughputMeasured | FractionsAsked | PortionRequested):
            self._share_data(rank, message)
        elif isinstance(message, ScriptCompleted):
            self._end(rank, message)
        elif isinstance(message, Concluded):
            self.concluded[rank] = message
            self._let_go()

    def expect_newcomer(self, rank: int) -> None:
        """A process is started in the place of worker `rank`, which is dead, perhaps before all have joined."""
        self._loadings.lose(rank)
        self.late_joins.expect(rank)
        if not self.has_begun:
            self._joined.pop(rank, None)

    def tell_order(self, dead: Collection[int]) -> None:
        """Tell all worker 0's order of parameters, once it is known; that of the next, if worker 0 is `dead`."""
        order = self.late_joins.choose(min(self._members.difference(dead), default=0))
        if order is not None:
            self._to_all(order)

    def lose(self, rank: int) -> None:
        """Go on without worker `rank`: nobody waits for it at a report, at a save or at the end."""
        self._members.discard(rank)
        self._badness.pop(rank, None)
        self._loadings.lose(rank)
        for warning in self._consensus.lose(rank):
            self.on_tell(warning)
        for number, barrier in sorted(self._reports.items()):
            nobody_does = (
                not barrier.is_decided and barrier.has_all(self._members) and 0 not in arrived(barrier, self._members)
            )
            if nobody_does or (barrier.chosen == rank and barrier.evaluated is None):
                self.on_tell(
                    f"what worker {rank} was evaluating for the report of epoch {barrier.epoch + 1} is lost with it"
                )
                barrier.has_callables = False
            if barrier.has_all(self._members) or self._over:
                self._tell_report(number, even_if_some_lack=True)
        self.saves.lose(rank)
        if self.ended and not self._over:
            self._end_all()
        elif self._over:
            self._let_go()

    def _let_go(self) -> None:
        """When all have sent `Concluded`, they may exit."""
        if self.is_over:
            self._to_all(Conclude([], [], best(self._badness)))

    def _to_all(self, message: Message) -> None:
        for rank in sorted(self._members):
            self._send(rank, message)

    def welcome_newcomer(self, rank: int) -> None:
        """A newcomer takes the place of worker `rank`, which was lost. It makes no report that its sponsor has made."""
        self._members.add(rank)
        self._badness[rank] = WORST
        self._consensus.welcome(rank)
        welcome(rank, min(self._members - {rank}), (*self._reports.values(), *self.saves.barriers.values()))

    def _join(self, rank: int, message: ScriptJoined) -> None:
        if self.welcome is not None and rank not in self._members:
            self.late_joins.join(rank, message, self.welcome[0])
            return
        if self.has_begun:
            self._join_more(rank, message)
            return
        self._joined[rank] = message
        if not self.has_begun:
            return
        first = self._joined[0]
        for other in range(1, self.num_workers):
            check_layouts(other, first.layout, self._joined[other].layout)
        check_all_fit(self._hosts, self.rooms, COPIES * first.num_bytes)
        text = self._strategy or first.strategy
        if text is None:
            text = DEFAULT_STRATEGY
        built = None
        if text != OWN:
            built = strategy_of(text)
            num_memories = self.num_workers if self._reductions.transport == TCP else len(set(self._hosts))
            built.check(self.num_workers, num_memories)
            self.is_alike = self.is_alike or built.keeps_replicas_equal
            check_sharing(built, text, self._share)
            self._deals_portions = self._deals_portions or built.deals_portions
            if self._baseline is None:
                self._short_run = ShortRun(built, self.num_workers, self.on_tell)
                self._short_run.expect(self.steps_total)
        compress = None if self._baseline or self.num_workers == 1 else said(self._compress or first.compress)
        if compress is not None and built is not None:
            check_pair(built, codec_of(compress), text)
        self.label = self._baseline or with_share(with_codec(text or "the script's own", compress), self._share)
        if self._reductions.on_devices:
            check_on_devices(built, compress, self.label)
        ports = [self._joined[other].port for other in range(self.num_workers)]
        way = self._reductions.choose(built, compress, first.num_bytes)
        welcome = Welcome(text, ports, way.collective, compress, way.scheme, way.sums_hosts)
        if built is not None and self._baseline is None:
            self.on_explain(self._reductions.explain(built, text, compress, first.num_bytes, first.layout))
        self.welcome = welcome, first.num_bytes
        self.late_joins.remember(first.layout)
        self.on_joined()
        self.began_s = time.perf_counter()
        self._to_all(welcome)

    def _join_more(self, rank: int, message: ScriptJoined) -> None:
        """A worker joins with a further model beside its earlier ones; when all have, all are sent `Welcome` again."""
        self._more[rank] = message
        if not self._members <= self._more.keys():
            return
        first = self._more[min(self._members)]
        for other in sorted(self._members):
            check_layouts(other, first.layout, self._more[other].layout)
        check_all_fit(self._hosts, self.rooms, COPIES * first.num_bytes)
        assert self.welcome is not None
        self.welcome = self.welcome[0], first.num_bytes
        self.late_joins.remember(first.layout)
        self._more.clear()
        self.on_joined()
        self._to_all(self.welcome[0])

    def _plan(self, plan: Planned) -> None:
        if plan.num_epochs is None or self._steps_max is not None:
            return
        self.samples_planned = plan.num_epochs * plan.num_samples
        steps = steps_planned(plan, self.num_workers, self._global_batch, deals_portions=self._deals_portions)
        self.steps_total = plan.num_epochs * steps
        if self._short_run is not None:
            self._short_run.expect(self.steps_total)

    def _report(self, rank: int, message: Reported) -> None:
        """Take a report: numbers are averaged over workers; one is chosen to run the callables on the result model."""
        self._badness[rank] = message.badness
        barrier = self._reports.setdefault(message.number, Barrier(message.epoch, bool(message.callables)))
        barrier.came[rank] = message
        if message.callables:
            self._send(rank, Decided(barrier.chooses(rank, self._members, is_alike=self.is_alike), best(self._badness)))
        for number in sorted(self._reports):
            # since `rank`, which was at report `number`, has gone on, that report need not wait for missing workers
            is_passed = number < message.number and rank in self._reports[number].came
            self._tell_report(number, even_if_some_lack=is_passed and self.is_alike)

    def _tell_report(self, number: int, *, even_if_some_lack: bool = False) -> None:
        barrier = self._reports[number]
        if not barrier.has_all(self._members) and not even_if_some_lack:
            return
        if barrier.has_callables and barrier.evaluated is None:
            return
        del self._reports[number]
        means = barrier.means()
        if barrier.evaluated is None:
            self.on_report(barrier.epoch, means, None)
        else:
            consensus = barrier.evaluated.consensus
            if consensus is None:
                consensus = self._consensus.distance(number)
            self.on_report(barrier.epoch, {**means, **barrier.evaluated.numbers}, consensus)

    def _compare(self, rank: int, message: ReplicaTold) -> None:
        look = Look(message.step, message.digests, message.sketches, message.processor)
        warning = self._consensus.take(rank, message.number, look)
        if warning is not None:
            self.on_tell(warning)

    def _evaluate(self, message: Evaluated) -> None:
        self._reports[message.number].evaluated = message
        self._tell_report(message.number, even_if_some_lack=self._members <= self.ended.keys())

    def _save(self, rank: int, message: Saves) -> None:
        self._badness[rank] = message.badness
        is_chosen = self.saves.take(rank, message, self._members, is_alike=self.is_alike)
        self._send(rank, Decided(is_chosen, best(self._badness)))

    def _share_data(self, rank: int, message: ThroughputMeasured | FractionsAsked | PortionRequested) -> None:
        """Answer a worker's request for data. The first worker that asks for a block fixes its fractions for all, from
        the speeds that all workers have measured until then."""
        if not isinstance(message, ThroughputMeasured):
            self._shares.check(rank, message.share, message.num_samples)
        if isinstance(message, PortionRequested):
            portion = self._shares.queues.take(rank, message.share, message.num_portions)
            self._send(rank, PortionTold(portion))
            return
        measured = message if isinstance(message, ThroughputMeasured) else message.measured
        self._shares.fractions.tell(rank, Done(measured.steps, measured.samples, measured.seconds))
        if isinstance(message, FractionsAsked):
            self._send(rank, FractionsTold(list(self._shares.fractions.ask(message.share, message.block))))

    def _end(self, rank: int, message: ScriptCompleted) -> None:
        self.ended[rank] = message
        self._badness[rank] = message.badness
        self._end_all()

    def _end_all(self) -> None:
        """When all scripts have ended, tell the workers to conclude."""
        if not self._members <= self.ended.keys():
            return
        self._over = time.perf_counter()
        if self._short_run is not None:
            self._short_run.end(max(ended.final.step for ended in self.ended.values()))
        for number in sorted(self._reports):
            self._tell_report(number, even_if_some_lack=True)
        first = min(self._members)
        reports, saves = left_to(first, self._reports), self.saves.end(first, self._members)
        for number in reports:
            self._reports[number].chosen = first
        for rank in sorted(self._members):
            self._send(rank, Conclude(reports, saves.get(rank, []), best(self._badness), first))
