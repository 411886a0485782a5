"""What the engine answers its workers: they join alike, load once, report and save together, and end together."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from weft.config.registry import strategy as strategy_of
from weft.core.errors import ConfigError
from weft.data.static import global_batches
from weft.engines.memory import available_bytes, check_fits
from weft.engines.seats import OWN
from weft.runtime.channel import (
    Concluded,
    Decided,
    Ended,
    Evaluated,
    Finish,
    Joined,
    Message,
    OnceAnswer,
    OnceAsked,
    OnceLoaded,
    Order,
    Planned,
    Reported,
    Saves,
    Welcome,
)
from weft.runtime.wires import TCP

DEFAULT_STRATEGY = "allreduce"
COPIES = 5
"""Of the model in each worker's memory: parameters, gradients, what is reduced, and the optimizer's state."""

Send = Callable[[int, Message], None]


@dataclass
class Loading:
    """One value of `weft.once`: who waits for it, and its form once it is there."""

    waiting: list[int] = field(default_factory=list)
    form: bytes | None = None


class Conversation:
    """Everything the workers of a run ask and tell, apart from how they do."""

    def __init__(
        self,
        num_workers: int,
        strategy: str | None,
        collective: str | None,
        transport: str,
        send: Send,
        *,
        steps_max: int | None = None,
        global_batch: int | None = None,
        baseline: str | None = None,
    ) -> None:
        self._num_workers = num_workers
        self._strategy = strategy
        self._collective = collective or ("ring" if transport == TCP else None)
        self._send = send
        self._steps_max = steps_max
        self._global_batch = global_batch
        self._baseline = baseline
        self._joined: dict[int, Joined] = {}
        self._reports: dict[int, dict[int, Reported]] = {}
        self._saves: dict[int, set[int]] = {}
        self._loading: dict[str, Loading] = {}
        self._once_stop = 0
        self.ended: dict[int, Ended] = {}
        self.concluded: dict[int, Concluded] = {}
        self.steps_total: int | None = steps_max
        self.label = strategy or ""
        self.on_report: Callable[[int, dict[str, float]], None] = lambda epoch, numbers: None
        self._began = self._over = 0.0
        self._numbers: dict[int, dict[str, float]] = {}

    @property
    def has_begun(self) -> bool:
        """All have joined."""
        return len(self._joined) == self._num_workers

    @property
    def run_s(self) -> float:
        """From when all had joined until all scripts had ended."""
        return self._over - self._began

    @property
    def is_over(self) -> bool:
        """All have said their last word."""
        return len(self.concluded) == self._num_workers

    def hear(self, rank: int, message: Message) -> None:
        """Take what a worker said."""
        if isinstance(message, Joined):
            self._join(rank, message)
        elif isinstance(message, Order):
            self._to_all(message)
        elif isinstance(message, Planned):
            self._plan(message)
        elif isinstance(message, Reported):
            self._report(rank, message)
        elif isinstance(message, Evaluated):
            self._tell_report(message.number, message.epoch, message.numbers)
        elif isinstance(message, Saves):
            self._save(rank, message)
        elif isinstance(message, OnceAsked):
            self._ask_once(rank, message)
        elif isinstance(message, OnceLoaded):
            self._take_once(message)
        elif isinstance(message, Ended):
            self._end(rank, message)
        elif isinstance(message, Concluded):
            self.concluded[rank] = message
            if self.is_over:
                self._to_all(Finish([], []))

    def _to_all(self, message: Message) -> None:
        for rank in range(self._num_workers):
            self._send(rank, message)

    def _join(self, rank: int, message: Joined) -> None:
        self._joined[rank] = message
        if not self.has_begun:
            return
        first = self._joined[0]
        for other in range(1, self._num_workers):
            check_layouts(other, first.layout, self._joined[other].layout)
        check_fits(self._num_workers, COPIES * first.num_bytes, available_bytes())
        text = self._strategy or first.strategy
        if text is None:
            text = DEFAULT_STRATEGY
        if text != OWN:
            strategy_of(text).graph(self._num_workers)
        self.label = self._baseline or text or "the script's own"
        named = f"{text} | {self._collective}" if self._collective else text
        ports = [self._joined[other].port for other in range(self._num_workers)]
        self._began = time.perf_counter()
        self._to_all(Welcome(named, ports))

    def _plan(self, plan: Planned) -> None:
        if plan.num_epochs is not None and self._steps_max is None:
            spans = global_batches(
                plan.num_samples, self._num_workers, plan.batch_size, plan.drop_last, self._global_batch
            )
            self.steps_total = plan.num_epochs * len(spans)

    def _report(self, rank: int, message: Reported) -> None:
        """Numbers are averaged over the workers; callables are run by the last one, on the result model."""
        reports = self._reports.setdefault(message.number, {})
        reports[rank] = message
        is_last = len(reports) == self._num_workers
        if message.callables:
            self._send(rank, Decided(is_last))
        if is_last:
            del self._reports[message.number]
            self._average(message.number, reports)
            if not message.callables:
                self._tell_report(message.number, message.epoch, {})

    def _average(self, number: int, reports: dict[int, Reported]) -> None:
        names = dict.fromkeys(name for report in reports.values() for name in report.numbers)
        told = {n: [report.numbers[n] for report in reports.values() if n in report.numbers] for n in names}
        self._numbers[number] = {name: sum(values) / len(values) for name, values in told.items()}

    def _tell_report(self, number: int, epoch: int, evaluated: dict[str, float]) -> None:
        self.on_report(epoch, {**self._numbers.pop(number, {}), **evaluated})

    def _save(self, rank: int, message: Saves) -> None:
        savers = self._saves.setdefault(message.number, set())
        savers.add(rank)
        is_last = len(savers) == self._num_workers
        if is_last:
            del self._saves[message.number]
        self._send(rank, Decided(is_last))

    def _ask_once(self, rank: int, message: OnceAsked) -> None:
        loading = self._loading.get(message.key)
        if loading is None:
            self._loading[message.key] = Loading()
            self._send(rank, OnceAnswer(self._once_stop, None))
        elif loading.form is None:
            loading.waiting.append(rank)
        else:
            self._send(rank, OnceAnswer(0, loading.form))

    def _take_once(self, message: OnceLoaded) -> None:
        loading = self._loading[message.key]
        loading.form = message.form
        self._once_stop = max(self._once_stop, message.stop)
        for rank in loading.waiting:
            self._send(rank, OnceAnswer(0, loading.form))

    def _end(self, rank: int, message: Ended) -> None:
        self.ended[rank] = message
        if len(self.ended) < self._num_workers:
            return
        self._over = time.perf_counter()
        open_reports = [number for number in sorted(self._reports) if 0 in self._reports[number]]
        for number in open_reports:
            self._average(number, self._reports[number])
        self._to_all(Finish(open_reports, [number for number in sorted(self._saves) if 0 in self._saves[number]]))


def check_layouts(rank: int, first: list[str], mine: list[str]) -> None:
    """Refuse workers whose models differ; names the first parameter that does."""
    for a, b in zip(first, mine, strict=False):
        if a != b:
            raise ConfigError(
                f"worker {rank} joined with '{b}' where worker 0 has '{a}'.\n  Build the same model on every worker."
            )
    if len(first) != len(mine):
        raise ConfigError(
            f"worker {rank} joined with {len(mine)} tensors, worker 0 with {len(first)}.\n"
            "  Build the same model on every worker."
        )
