"""Chooses a worker's seat: LiveSeat among several workers, PlainSeat alone, BaselineSeat under torch's DDP."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from weft.adapters import sharing
from weft.config.compression import Compression, check_pair, compressed
from weft.config.compression import codec as codec_of
from weft.config.registry import STRATEGIES, lowered, spelled
from weft.config.registry import strategy as strategy_of
from weft.core.errors import ConfigError
from weft.core.seat import Replica
from weft.core.strategy import Strategy
from weft.engines.real.hops import plans_between
from weft.runtime.channel import Channel
from weft.runtime.messages import Concluded, ScriptJoined, Welcome, WorkerJob
from weft.runtime.seats.engine_seat import EngineSeat
from weft.runtime.seats.live_seat import LiveSeat
from weft.runtime.seats.plain_seat import PlainSeat

OWN = ""
"""Stands for a strategy that is an object of the script's own, which has no name."""


def seat_of(job: WorkerJob, channel: Channel) -> EngineSeat:
    """The seat for `job`. A single worker exchanges nothing, so its training loop is left as it is."""
    if job.baseline is not None and job.num_workers > 1:
        return BaselineSeat(job, channel, sharing)
    if job.num_workers == 1:
        return PlainSeat(job, channel, sharing)
    planner = plans_between if job.link is None else partial(plans_between, link=job.link)
    return LiveSeat(job, channel, resolve, sharing, planner)


def hook_of(baseline: str | None) -> str | None:
    """The DDP communication hook of a baseline: 'fp16' of 'ddp+fp16'; None without one."""
    return (baseline or "").partition("+")[2] or None


class BaselineSeat(PlainSeat):
    """A worker under torch's DistributedDataParallel."""

    def join(self, replica: Replica, strategy: Strategy | str | None, compress: str | None = None) -> None:
        from weft.adapters.torch import ddp

        if not hasattr(replica, "models"):
            raise ConfigError("--baseline ddp needs a torch model, but the script joined with arrays.\n  Leave it out.")
        self._check_first_join()
        self._replica = replica
        host = self.job.addresses[0] if self.job.addresses else ddp.LOOPBACK
        store = ddp.open_store(self.rank, self.num_workers, host=host) if self.rank == 0 else None
        self._channel.send(ScriptJoined(list(replica.layout()), 0, None, 0 if store is None else store.port))
        welcome = self._expect_welcome()
        self._store = store or ddp.open_store(self.rank, self.num_workers, welcome.ports[0], host)
        ddp.meet(self._store, self.rank, self.num_workers)
        self._wrapped: list[Any] = []
        self._wrap_last()
        self._begin()

    def join_more(self) -> None:
        super().join_more()
        self._wrap_last()

    def _wrap_last(self) -> None:
        """Wrap the model that joined last in DistributedDataParallel."""
        from weft.adapters.torch import ddp

        model = self._replica.models[-1]  # type: ignore[attr-defined]
        synchronised = ddp.Synchronised(
            model,
            number=len(self._wrapped),
            store=self._store,
            rank=self.rank,
            num_workers=self.num_workers,
            hook=hook_of(self.job.baseline),
        )
        self._wrapped.append(synchronised)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """While the context is open, gradients are accumulated locally (DDP's no_sync)."""
        with ExitStack() as stack:
            for model in self._wrapped:
                stack.enter_context(model.ddp.no_sync())
            yield

    def _on_result(self, functions: Mapping[str, Callable[[], float]]) -> tuple[dict[str, float], float | None]:
        with ExitStack() as stack:
            for model in self._wrapped:
                stack.enter_context(model.around())
            return super()._on_result(functions)

    def step_finished(self, samples: float, loss: float | None, *, is_repeat: bool = False) -> None:
        for model in self._wrapped:
            model.check(self._step + 1)
        super().step_finished(samples, loss, is_repeat=is_repeat)

    def _conclude(self, *, is_first: bool) -> Concluded:
        from weft.adapters.torch import ddp

        ddp.leave()
        return super()._conclude(is_first=is_first)


def resolve(welcome: Welcome | None, asked: Strategy | str | None) -> tuple[Strategy, str]:
    """The strategy of a worker and its name: built from `welcome`, with its collective and codec, or the script's own
    object `asked`."""
    if welcome is None or welcome.strategy is None:
        assert isinstance(asked, Strategy)
        return asked, spelled(asked) if type(asked) in STRATEGIES.values() else OWN
    built = asked if welcome.strategy == OWN else strategy_of(welcome.strategy)
    assert isinstance(built, Strategy)
    if welcome.compress is not None:
        compression = Compression(codec_of(welcome.compress), welcome.scheme, welcome.sums_hosts)
        if welcome.strategy == OWN:
            check_pair(built, compression.codec, type(built).__name__)
        return compressed(built, compression, welcome.collective), welcome.strategy
    return (lowered(built, welcome.collective) if welcome.collective else built), welcome.strategy
